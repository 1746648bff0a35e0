/// Marks the end of a traced phase of a step. Internal.
#pragma once

#include <mn/core/trace.hpp>
#include <mn/tensor/tensor.hpp>

namespace mn {

/// If there is a trace, waits until the current stream has done its work, so that this work counts in the phase.
/// Reductions on a second stream count in the later phase that waits for them.
inline void end_phase(const Trace* trace, Device device) {
  if (trace != nullptr && device.type != DeviceType::kCpu) current_stream(device).synchronize();
}

}  // namespace mn

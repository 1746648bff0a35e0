/// The end of a traced phase of a step. Internal.
#pragma once

#include <mn/core/trace.hpp>
#include <mn/tensor/tensor.hpp>

namespace mn {

/// If there is a trace, waits for the work on the current stream, because the time of a phase includes this work.
/// Reductions that run on a second stream meanwhile count in the phase that waits for the second stream.
inline void end_phase(const Trace* trace, Device device) {
  if (trace != nullptr && device.type != DeviceType::kCpu) current_stream(device).synchronize();
}

}  // namespace mn

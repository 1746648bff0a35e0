/// The end of a traced phase of a step. Internal.
#pragma once

#include <mn/core/trace.hpp>
#include <mn/tensor/tensor.hpp>

namespace mn {

/// With a trace, waits for the current stream, because the time of a phase includes the stream's work. Reductions that
/// overlap in a second stream count in the phase that waits for the second stream.
inline void end_phase(const Trace* trace, Device device) {
  if (trace != nullptr && device.type != DeviceType::kCpu) current_stream(device).synchronize();
}

}  // namespace mn

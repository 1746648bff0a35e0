/// Where a traced phase of a step ends. Internal.
#pragma once

#include <mn/core/trace.hpp>
#include <mn/tensor/tensor.hpp>

namespace mn {

/// With a trace: waits for the work of the current stream, so that the phase's time is that of its work. What other
/// streams still do, such as reductions that overlap, belongs to the phase that joins them.
inline void end_phase(const Trace* trace, Device device) {
  if (trace != nullptr && device.type != DeviceType::kCpu) current_stream(device).synchronize();
}

}  // namespace mn

/// What calls ask of buffers that may lie on a device.
#pragma once

#include <algorithm>
#include <vector>

#include <mn/core/buffer.hpp>

namespace mn {

/// Whether a call on the host needs a copy of it.
[[nodiscard]] inline bool lies_on_device(const ConstBufferView& buffer) {
  return buffer.device.type != DeviceType::kCpu;
}

/// Calls wait(stream) once for each stream that holds work on those of the buffers that lie on the device.
template <class Buffers, class Wait>
void for_each_stream(const Buffers& buffers, const Wait& wait) {
  std::vector<void*> seen;
  for (const ConstBufferView buffer : buffers) {
    if (!lies_on_device(buffer) || std::ranges::find(seen, buffer.stream) != seen.end()) continue;
    seen.push_back(buffer.stream);
    wait(buffer.stream);
  }
}

}  // namespace mn

/// The test device's memory, and page-locked memory of the host. Internal.
#pragma once

#include <c10/core/Allocator.h>
#include <c10/core/Stream.h>

namespace mn::test_device {

/// Device memory in the order of the stream that is current at the call.
[[nodiscard]] c10::Allocator& device_allocator();
[[nodiscard]] c10::Allocator& pinned_allocator();
[[nodiscard]] bool is_pinned(const void* memory);
/// Where the device's kernels find what `memory` means. Throws if that is not memory of the device.
[[nodiscard]] void* reach(const void* memory, std::size_t bytes);
/// record_stream(): the memory is not given out again before the stream has passed what it holds when it is freed.
void record_use(const c10::DataPtr& memory, const c10::Stream& stream);

/// While it lives, memory that captured streams allocate is a graph's: it is not given out again, neither in the
/// capture nor after it.
class GraphMemory {
 public:
  GraphMemory();
  ~GraphMemory();
  GraphMemory(const GraphMemory&) = delete;
  GraphMemory& operator=(const GraphMemory&) = delete;
};

}  // namespace mn::test_device

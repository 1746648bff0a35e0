#include <mn/checkpoint/copy_memory.hpp>

#include <sys/mman.h>
#include <unistd.h>

#include <mn/core/error.hpp>

namespace mn {
namespace {

/// Lets the kernel provide all memory pages at once. Otherwise the kernel would provide each page at the first write to
/// it, which doubles the time of a first copy. Huge pages would take longer. Has no effect on kernels without
/// MADV_POPULATE_WRITE.
void populate(std::span<std::byte> memory) {
  constexpr int kPopulateWrite = 23;  // MADV_POPULATE_WRITE of Linux 5.14, which older headers lack
  const auto page = static_cast<std::size_t>(::sysconf(_SC_PAGESIZE));
  std::byte* const begin = memory.data() - reinterpret_cast<std::uintptr_t>(memory.data()) % page;
  ::madvise(begin, static_cast<std::size_t>(memory.data() + memory.size() - begin), kPopulateWrite);
}

}  // namespace

void CopyMemory::reserve(std::uint64_t bytes, Device device) {
  if (bytes <= bytes_.size()) return;
  bytes_ = {};
  pinned_.reset();
  pageable_ = {};
  if (device.type == DeviceType::kCuda) {
    try {
      pinned_ = cuda_allocate_pinned(bytes);
      bytes_ = {pinned_.get(), bytes};
      return;
    } catch (const CommError&) {  // pageable memory works too, only slower
    }
  }
  pageable_.resize(bytes);
  bytes_ = pageable_;
  populate(bytes_);
}

}  // namespace mn

/// Device memory and page-locked host memory.
///
/// Device memory is mapped twice: a program gets an address that nobody may read or write, the stand-in works through
/// an alias. An access from host code is a SIGSEGV at once.
///
/// Invariants:
/// 1. New memory holds bytes that are NaN in every float type.
/// 2. The address of freed device memory is never given out again, so late uses of it are found; its pages are.
#pragma once

#include <cstddef>
#include <map>
#include <mutex>

namespace mn::stand_in {

enum class MemoryKind { kPageable, kDevice, kPinned, kRegistered };

class Memory {
 public:
  /// Null where there is no more.
  [[nodiscard]] std::byte* allocate_device(std::size_t bytes, int device);
  [[nodiscard]] std::byte* allocate_pinned(std::size_t bytes);
  /// False if a part of it is registered or allocated here.
  bool register_host(void* memory, std::size_t bytes);
  /// False unless an allocation of this kind begins there. The caller has waited for the GPUs.
  bool release(void* memory, MemoryKind kind);

  /// The kind of the allocation that holds the address.
  [[nodiscard]] MemoryKind kind_of(const void* memory);
  /// Device of the allocation that begins there; -1 if none does, or not on a GPU.
  [[nodiscard]] int device_of(const void* memory);

  /// Where the stand-in reads and writes what `memory` means. Null, after a line that says why, unless all `bytes` lie
  /// in one allocation.
  [[nodiscard]] std::byte* alias(const void* memory, std::size_t bytes);

  /// Allocations that live, of any kind.
  [[nodiscard]] std::size_t count();

 private:
  struct Allocation {
    MemoryKind kind = MemoryKind::kPageable;
    int device = -1;
    std::size_t bytes = 0;
    std::size_t mapped = 0;
    std::byte* alias = nullptr;
  };
  /// The allocation that holds the address; allocations_.end() if none does.
  std::map<std::byte*, Allocation>::iterator find(const void* memory);
  std::byte* add(std::byte* memory, const Allocation& allocation);

  std::mutex mutex_;
  std::map<std::byte*, Allocation> allocations_;  // by their first byte
};

[[nodiscard]] Memory& memory();

}  // namespace mn::stand_in

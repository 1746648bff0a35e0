#include "tests/support/stand_in_gpu/memory.hpp"

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <sstream>

#include <sys/mman.h>
#include <unistd.h>

#include "tests/support/stand_in_gpu/calls.hpp"

namespace mn::stand_in {
namespace {

constexpr std::size_t kPage = 4096;
constexpr std::size_t kMaxBytes = std::size_t{16} << 30;  // an allocation may have
constexpr int kUnwritten = 0xff;
constexpr int kFreed = 0xee;

std::size_t whole_pages(std::size_t bytes) { return (std::max<std::size_t>(bytes, 1) + kPage - 1) / kPage * kPage; }

std::string text(const void* address) { return (std::ostringstream() << address).str(); }

}  // namespace

Memory& memory() {
  static auto& all = *new Memory;  // streams use it until the process is gone
  return all;
}

std::byte* Memory::add(std::byte* memory, const Allocation& allocation) {
  const std::lock_guard lock(mutex_);
  allocations_[memory] = allocation;
  return memory;
}

std::byte* Memory::allocate_device(std::size_t bytes, int device) {
  if (bytes > kMaxBytes) return nullptr;
  const std::size_t mapped = whole_pages(bytes);
  const int file = memfd_create("stand_in_gpu", MFD_CLOEXEC);
  if (file < 0) return nullptr;
  void* shown = MAP_FAILED;
  void* alias = MAP_FAILED;
  if (ftruncate(file, static_cast<off_t>(mapped)) == 0) {
    shown = mmap(nullptr, mapped, PROT_NONE, MAP_SHARED, file, 0);
    alias = mmap(nullptr, mapped, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
  }
  close(file);
  if (shown == MAP_FAILED || alias == MAP_FAILED) return nullptr;
  std::memset(alias, kUnwritten, mapped);
  return add(static_cast<std::byte*>(shown),
             {MemoryKind::kDevice, device, bytes, mapped, static_cast<std::byte*>(alias)});
}

std::byte* Memory::allocate_pinned(std::size_t bytes) {
  if (bytes > kMaxBytes) return nullptr;
  const std::size_t mapped = whole_pages(bytes);
  auto* memory = static_cast<std::byte*>(std::aligned_alloc(kPage, mapped));
  if (memory == nullptr) return nullptr;
  std::memset(memory, kUnwritten, mapped);
  return add(memory, {MemoryKind::kPinned, -1, bytes, mapped, memory});
}

bool Memory::register_host(void* memory, std::size_t bytes) {
  auto* const first = static_cast<std::byte*>(memory);
  {
    const std::lock_guard lock(mutex_);
    const auto next = allocations_.lower_bound(first);
    if (find(first) != allocations_.end() || (next != allocations_.end() && next->first < first + bytes)) return false;
  }
  add(first, {MemoryKind::kRegistered, -1, bytes, bytes, first});
  return true;
}

bool Memory::release(void* memory, MemoryKind kind) {
  const std::lock_guard lock(mutex_);
  const auto found = allocations_.find(static_cast<std::byte*>(memory));
  if (found == allocations_.end() || found->second.kind != kind) return false;
  const Allocation& allocation = found->second;
  if (kind == MemoryKind::kDevice) {
    munmap(allocation.alias, allocation.mapped);
    mmap(memory, allocation.mapped, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED, -1, 0);
  }
  if (kind == MemoryKind::kPinned) {
    std::memset(memory, kFreed, allocation.bytes);
    std::free(memory);
  }
  allocations_.erase(found);
  return true;
}

std::map<std::byte*, Memory::Allocation>::iterator Memory::find(const void* memory) {
  auto* const at = static_cast<std::byte*>(const_cast<void*>(memory));
  auto next = allocations_.upper_bound(at);
  if (next == allocations_.begin()) return allocations_.end();
  --next;
  return at < next->first + next->second.mapped ? next : allocations_.end();
}

MemoryKind Memory::kind_of(const void* memory) {
  const std::lock_guard lock(mutex_);
  const auto found = find(memory);
  return found == allocations_.end() ? MemoryKind::kPageable : found->second.kind;
}

int Memory::device_of(const void* memory) {
  const std::lock_guard lock(mutex_);
  const auto found = allocations_.find(static_cast<std::byte*>(const_cast<void*>(memory)));
  return found == allocations_.end() ? -1 : found->second.device;
}

std::byte* Memory::alias(const void* memory, std::size_t bytes) {
  const std::lock_guard lock(mutex_);
  const auto found = find(memory);
  if (found == allocations_.end()) {
    complain(text(memory) + " is not memory that the GPU reaches: never allocated, or freed");
    return nullptr;
  }
  const auto& [first, allocation] = *found;
  const auto offset = static_cast<std::size_t>(static_cast<const std::byte*>(memory) - first);
  if (offset + bytes > allocation.bytes) {
    complain(std::to_string(bytes) + " bytes at offset " + std::to_string(offset) + " of an allocation of " +
             std::to_string(allocation.bytes));
    return nullptr;
  }
  return allocation.alias + offset;
}

std::size_t Memory::count() {
  const std::lock_guard lock(mutex_);
  return allocations_.size();
}

}  // namespace mn::stand_in

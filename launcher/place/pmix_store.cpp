#include "place/pmix_store.hpp"

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <fstream>
#include <span>
#include <string>

namespace mn::launcher {
namespace {

/// The beginning of a file of locks; a mark for each lock follows. Source: openpmix,
/// src/mca/gds/ds21/gds_ds21_lock_pthread.c.
struct LocksHeader {
  std::size_t bytes;
  std::uint32_t count;
  std::size_t alignment;
  std::size_t first_lock;
};

bool free_locks(std::uintptr_t begin, std::size_t bytes) {
  const auto* header = reinterpret_cast<const LocksHeader*>(begin);
  const std::size_t end_of_marks = sizeof *header + header->count * sizeof(std::int32_t);
  if (header->bytes != bytes || end_of_marks > header->first_lock || header->first_lock >= bytes) return false;
  const std::span marks(reinterpret_cast<std::int32_t*>(begin + sizeof *header), header->count);
  // A mark other than 0 and 1 means an unknown layout: nothing is written.
  if (!std::ranges::all_of(marks, [](std::int32_t mark) { return mark == 0 || mark == 1; })) return false;
  // Clients of the node may read the marks at any time.
  for (auto& mark : marks) __atomic_store_n(&mark, 0, __ATOMIC_SEQ_CST);
  return true;
}

}  // namespace

bool free_locks_of_store() {
  bool has_store = false;
  bool is_free = false;
  std::ifstream maps("/proc/self/maps");
  for (std::string line; std::getline(maps, line);) {
    has_store = has_store || line.find("/pmix_dstor") != std::string::npos;
    std::uintptr_t begin = 0;
    std::uintptr_t end = 0;
    char access[5] = {};
    if (line.find("/smlockseg-") == std::string::npos) continue;
    if (std::sscanf(line.c_str(), "%lx-%lx %4s", &begin, &end, access) != 3 || std::string(access) != "rw-s") continue;
    is_free = free_locks(begin, end - begin);
    if (!is_free) return false;
  }
  return is_free || !has_store;
}

}  // namespace mn::launcher

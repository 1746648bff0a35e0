/// Memory that the ranks of a node share: POSIX shared memory that mn maps itself, because an MPI window can be
/// released only by all ranks together.
///
/// NodeReducer calls it, on all ranks of a node at once. The first rank makes an object under a random name;
/// each rank reserves the pages of its own segment in it, maps the whole, and says how that went; then the name is
/// removed.
///
/// Invariants:
/// 1. Either every rank of the node has the memory, or every rank throws the same NoSharedMemory and keeps nothing.
/// 2. Release is local: a rank unmaps, without a call of MPI, in any order, after MPI_Finalize, while an exception
///    unwinds.
/// 3. Each process has a mapping of its own. A rank that releases takes nothing from its peers: they go on reading and
///    writing all segments, its own too. The pages go with the last mapping.
/// 4. Pages are reserved at once, by the rank whose segment they are: a full /dev/shm is an error here and no SIGBUS
///    later, and memory lies near the CPU of its owner.
/// 5. The name exists only while the constructor runs, and the process that made it holds a lock (flock) meanwhile. A
///    process that is killed then leaves the name without a lock behind: the next one of this user on the node removes
///    it. If a process looks at a name before its maker has the lock, the maker takes another.
/// 6. Segments of 2 MiB and more begin at multiples of that, in the object and in every process's memory, so that the
///    kernel can make huge pages of them.
///
/// Cost for n ranks: one MPI_Allgather of 64 bytes, one MPI_Allreduce of 8, one mapping in each process.
/// Source: shm_overview(7); madvise(2), MADV_COLLAPSE.
#pragma once

#include <cstddef>
#include <utility>
#include <vector>

#include <mpi.h>

#include <mn/core/error.hpp>

namespace mn {

/// The node cannot share this memory; what() says which rank failed, and why. Thrown on every rank of the node alike,
/// and the communicator remains usable.
class NoSharedMemory : public CommError {
 public:
  using CommError::CommError;
};

/// Removes the objects of this user that killed processes have left in /dev/shm (5). Called once in each process that
/// makes one.
void remove_abandoned_shared_memory();

/// A segment for each rank of a node: aligned to a page, zeroed.
class SharedMemory {
 public:
  /// Collective over `node`, whose ranks run on one machine. `bytes` are this rank's own.
  SharedMemory(MPI_Comm node, std::size_t bytes);

  /// The segment of a rank of the node, as this process sees it.
  [[nodiscard]] std::byte* segment(int rank) const {
    return mapping_.data() + offsets_[static_cast<std::size_t>(rank)];
  }
  [[nodiscard]] std::size_t bytes() const noexcept { return bytes_; }

 private:
  /// Owns one mapping.
  class Mapping {
   public:
    Mapping() noexcept = default;
    Mapping(void* data, std::size_t bytes) noexcept : data_(data), bytes_(bytes) {}
    ~Mapping();
    Mapping(Mapping&& other) noexcept : data_(std::exchange(other.data_, nullptr)), bytes_(other.bytes_) {}
    Mapping& operator=(Mapping&& other) noexcept {
      std::swap(data_, other.data_);
      std::swap(bytes_, other.bytes_);
      return *this;
    }
    [[nodiscard]] std::byte* data() const noexcept { return static_cast<std::byte*>(data_); }

   private:
    void* data_ = nullptr;
    std::size_t bytes_ = 0;
  };
  class Draft;

  /// Maps the object behind the descriptor, and touches this rank's pages; returns errno, 0 on success.
  int map(int descriptor, std::size_t total, std::size_t own_offset);

  std::size_t bytes_;
  std::vector<std::size_t> offsets_;  // [ranks of the node] where segments begin
  Mapping mapping_;
};

}  // namespace mn

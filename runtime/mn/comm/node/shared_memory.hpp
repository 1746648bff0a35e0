/// POSIX shared memory of the ranks of a node. (All ranks would have to release MPI's own shared windows together.) The
/// first rank of the node makes a shared-memory object under a random name. Each rank reserves the pages of its own
/// part (segment) of the object, maps the whole object, and reports success or failure. Then the name is removed.
///
/// Invariants:
/// 1. Either every rank of the node has the memory, or every rank releases it and throws the same NoSharedMemory.
/// 2. A rank releases the memory by itself, without a call of MPI. Therefore ranks may release it in any order, also
///    after MPI_Finalize or while an exception unwinds the stack.
/// 3. Each process has its own mapping. After a rank has released its mapping, all remaining ranks can still read and
///    write all segments. The pages are freed with the last mapping.
/// 4. Each rank reserves the pages of its segment in the constructor. A full /dev/shm is therefore an error there, not
///    a SIGBUS later, and the segment's memory lies near the rank's CPU.
/// 5. The name exists only during the constructor, while its maker holds a lock (flock) on the object. A killed process
///    leaves a name without a lock, and the user's next process on the node removes it. If that process removes a name
///    whose maker has not locked the object yet, the maker takes a different name.
/// 6. Segments of 2 MiB and more begin at multiples of 2 MiB, in the object and in every mapping, so the kernel can use
///    huge pages.
///
/// Cost for n ranks: one MPI_Allgather of 64 bytes, one MPI_Allreduce of 8, one mapping in each process. Source:
/// shm_overview(7); madvise(2), MADV_COLLAPSE.
#pragma once

#include <cstddef>
#include <memory>
#include <vector>

#include <mpi.h>

#include <mn/core/error.hpp>

namespace mn {

/// Thrown on every rank of a node if the ranks cannot share the memory. The communicator remains usable.
class NoSharedMemory : public CommError {
 public:
  using CommError::CommError;
};

/// Invariant 5: removes the user's objects of killed processes. The first SharedMemory of a process calls this.
void remove_abandoned_shared_memory();

/// Memory that the ranks of a node share. Each rank has a page-aligned, zeroed segment.
class SharedMemory {
 public:
  /// Collective over `node`, whose ranks all run on one machine. `bytes` is the size of the calling rank's segment.
  SharedMemory(MPI_Comm node, std::size_t bytes);

  /// The address of the segment of rank `rank` in the calling process.
  [[nodiscard]] std::byte* segment(int rank) const { return mapping_.get() + offsets_[static_cast<std::size_t>(rank)]; }
  [[nodiscard]] std::size_t bytes() const noexcept { return bytes_; }

 private:
  struct Unmap {
    std::size_t bytes;
    void operator()(std::byte* data) const noexcept;
  };
  class Draft;

  /// Maps the object `descriptor` into this process, and touches the rank's own pages. Returns 0 or errno.
  int map(int descriptor, std::size_t total, std::size_t own_offset);

  std::size_t bytes_;
  std::vector<std::size_t> offsets_;  // [rank of the node]
  std::unique_ptr<std::byte, Unmap> mapping_;
};

}  // namespace mn

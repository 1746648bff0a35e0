/// Memory that the ranks of a node share.
#pragma once

#include <cstddef>
#include <vector>

#include <mpi.h>

namespace mn {

/// Owns an MPI shared-memory window in which each rank of a node has a segment of its own, 64-byte aligned and zeroed.
class SharedWindow {
 public:
  /// Collective over `node`, whose ranks can share memory. `bytes` is the same on all.
  SharedWindow(MPI_Comm node, std::size_t bytes);
  /// Collective, unless MPI is finalized or an exception unwinds.
  ~SharedWindow();
  SharedWindow(const SharedWindow&) = delete;
  SharedWindow& operator=(const SharedWindow&) = delete;

  /// The segment of a rank of the node, as this process sees it.
  [[nodiscard]] std::byte* segment(int rank) const { return segments_[static_cast<std::size_t>(rank)]; }
  [[nodiscard]] std::size_t bytes() const noexcept { return bytes_; }

 private:
  MPI_Win window_ = MPI_WIN_NULL;
  std::size_t bytes_;
  std::vector<std::byte*> segments_;
};

/// Collective over `node`: whether /dev/shm has room for `bytes` on each rank. Memory beyond that ends in SIGBUS.
[[nodiscard]] bool shared_memory_has_room(MPI_Comm node, std::size_t bytes);

}  // namespace mn

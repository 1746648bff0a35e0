/// Reductions over MPI messages in which every element is reduced in rank order, so that a result's bits depend neither
/// on the message's size nor on MPI's choice of algorithm.
#pragma once

#include <cstddef>
#include <memory>
#include <span>
#include <vector>

#include <mpi.h>

#include <mn/comm/reduce.hpp>

namespace mn {

/// The message tag that reductions and object transfers use; callers' own tags are below it (MPI allows at least
/// 32767).
inline constexpr int kInternalTag = 32767;

/// Small buffers: every rank gathers all of them and reduces locally. Large ones: ranks exchange slices, reduce their
/// own, and spread the result (reduce-scatter and allgather: R. Thakur, R. Rabenseifner, W. Gropp, "Optimization of
/// collective communication operations in MPICH", 2005), in pieces whose exchange overlaps the reduction of the piece
/// before. In step s rank r sends to r + s, so that no rank is sent to by two at once, and a few steps are under way at
/// a time, which many ranks' networks need. Host memory only. Scratch memory stays below 2 × kScratchBytes, whatever
/// the counts.
class OrderedReducer {
 public:
  /// Slices amortise a message's latency from here on, and a few of them stay within the cache.
  static constexpr std::size_t kSliceBytes = 256 * 1024;
  /// Slices of all ranks together; with very many ranks they are smaller.
  static constexpr std::size_t kScratchBytes = 16 * 1024 * 1024;

  /// `comm` is borrowed. Slices hold at most `count_limit` elements.
  OrderedReducer(MPI_Comm comm, std::size_t count_limit);

  /// Collective, in place.
  void allreduce(void* data, std::size_t count, const Reduction& reduction);
  /// Collective: recv gets part rank of the reduction of `send`, which holds size × `part_count` elements. `recv` may
  /// be that part of `send`.
  void reduce_scatter(const void* send, void* recv, std::size_t part_count, const Reduction& reduction);

 private:
  struct Slice {
    std::size_t offset;
    std::size_t length;
  };
  using Slices = std::vector<Slice>;  // [size] by the rank that reduces it
  class Steps;
  struct Free {
    void operator()(std::byte* memory) const noexcept;
  };

  [[nodiscard]] std::size_t slice_elements(std::size_t element_bytes) const;
  [[nodiscard]] std::byte* scratch(std::size_t bytes);
  void allreduce_small(void* data, std::size_t count, const Reduction& reduction);
  [[nodiscard]] Slices slices_of_piece(std::size_t first, std::size_t count) const;
  [[nodiscard]] Steps exchange(const std::byte* data, const Slices& slices, std::byte* received,
                               std::size_t element_bytes) const;
  void reduce_own(const std::byte* data, const Slices& slices, const std::byte* received, void* out,
                  const Reduction& reduction) const;
  [[nodiscard]] Steps spread(std::byte* data, const Slices& slices, std::size_t element_bytes) const;

  MPI_Comm comm_;
  std::size_t count_limit_;
  int rank_ = 0;
  int size_ = 1;
  std::unique_ptr<std::byte, Free> scratch_;
  std::size_t scratch_bytes_ = 0;
};

}  // namespace mn

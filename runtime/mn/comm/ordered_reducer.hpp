/// Reductions over MPI messages in which every element is reduced in rank order.
///
/// All ranks of a communicator call them at once: Communicator's allreduce and reduce_scatter, naive and flat for
/// gradients, and between nodes NodeReducer and the backends with NCCL. Small buffers: every rank gathers all of them
/// and reduces them itself. Large ones are cut into pieces with one slice for each rank: ranks exchange slices, reduce
/// their own, and spread the result, while the slices of the next piece are exchanged.
///
/// Invariants:
/// 1. Element i of a result is the reduction of the ranks' elements i in rank order. Its bits depend neither on the
///    count nor on MPI's choice of algorithm, and are equal on all ranks.
/// 2. In step s rank r sends to rank r + s, so no two ranks send to the same one in a step. At most eight steps of an
///    exchange are in flight, which is what the networks of many ranks need.
/// 3. All ranks post their messages in the same order, with one tag. MPI keeps the order between two ranks, so each
///    message matches the receive that is meant for it.
/// 4. A piece is received into scratch memory that the piece before does not use.
///
/// Cost for B bytes on n ranks. Up to max(16 KiB, 512 n) gathered bytes: one MPI_Allgather. Above: each rank sends and
/// receives 2 B (n - 1) / n bytes, in 2 (n - 1) messages for each piece of at most 256 KiB n; reduce and reduce_scatter
/// about half of that. Scratch memory of at most 2 kScratchBytes, whatever the count. Host memory only.
/// Source: R. Thakur, R. Rabenseifner, W. Gropp, "Optimization of collective communication operations in MPICH", 2005.
#pragma once

#include <cstddef>
#include <memory>
#include <span>
#include <vector>

#include <mpi.h>

#include <mn/comm/message_steps.hpp>
#include <mn/comm/reduce.hpp>

namespace mn {

/// The tag of the messages that reductions and collective calls on objects send, on communicators of their own.
inline constexpr int kInternalTag = 32767;

class OrderedReducer {
 public:
  /// From this size on a message's latency hardly counts, and a few slices stay in the cache.
  static constexpr std::size_t kSliceBytes = 256 * 1024;
  /// Slices of all ranks together; with very many ranks they are smaller.
  static constexpr std::size_t kScratchBytes = 16 * 1024 * 1024;

  /// `comm` is borrowed. Slices hold at most `count_limit` elements.
  OrderedReducer(MPI_Comm comm, std::size_t count_limit);

  /// Collective, in place.
  void allreduce(void* data, std::size_t count, const Reduction& reduction);
  /// Collective: `recv` of `root`, which may be `send`, gets the reduction; ignored elsewhere.
  void reduce(const void* send, void* recv, std::size_t count, const Reduction& reduction, int root);
  /// Collective: recv gets part rank of the reduction of `send`, which holds size × `part_count` elements. `recv` may
  /// be that part of `send`.
  void reduce_scatter(const void* send, void* recv, std::size_t part_count, const Reduction& reduction);

 private:
  struct Slice {
    std::size_t offset;
    std::size_t length;
  };
  using Slices = std::vector<Slice>;  // [size] by the rank that reduces it
  struct Free {
    void operator()(std::byte* memory) const noexcept;
  };

  [[nodiscard]] std::size_t slice_elements(std::size_t element_bytes) const;
  [[nodiscard]] std::byte* scratch(std::size_t bytes);
  void allreduce_small(void* data, std::size_t count, const Reduction& reduction);
  [[nodiscard]] Slices slices_of_piece(std::size_t first, std::size_t count) const;
  [[nodiscard]] MessageSteps exchange(const std::byte* data, const Slices& slices, std::byte* received,
                                      std::size_t element_bytes) const;
  void reduce_own(const std::byte* data, const Slices& slices, const std::byte* received, void* out,
                  const Reduction& reduction) const;
  [[nodiscard]] MessageSteps spread(std::byte* data, const Slices& slices, std::size_t element_bytes) const;
  [[nodiscard]] MessageSteps collect(const Slices& slices, const std::byte* reduced, std::byte* result,
                                     std::size_t element_bytes, int root) const;

  MPI_Comm comm_;
  std::size_t count_limit_;
  int rank_ = 0;
  int size_ = 1;
  std::unique_ptr<std::byte, Free> scratch_;
  std::size_t scratch_bytes_ = 0;
};

}  // namespace mn

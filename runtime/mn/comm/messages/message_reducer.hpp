/// Reductions over MPI messages in which every element is reduced in rank order.
///
/// All ranks of a communicator call them at once: Communicator's allreduce and reduce_scatter, naive and flat for
/// gradients, and between nodes NodeReducer and the backends with NCCL. Small buffers: every rank gathers all
/// of them and reduces them itself. Others have one slice for each rank: ranks exchange slices, reduce their own, and
/// spread the result. Where NetworkCosts say that this is quicker, slices go by way of other ranks; else straight, in
/// pieces of the buffer, of which three are under way at a time: the slices of one are exchanged while those of the one
/// before are reduced and the results of the one before that arrive.
///
/// Invariants:
/// 1. Element i of a result is the reduction of the ranks' elements i in rank order. Its bits depend neither on the
///    count nor on MPI's choice of algorithm, and are equal on all ranks.
/// 2. In step s rank r sends to rank r + s, so no two ranks send to the same one in a step. A few steps of an exchange
///    are in flight (MessageSteps), which is what the networks of many ranks need.
/// 3. All ranks post their messages in the same order, with one tag. MPI keeps the order between two ranks, so each
///    message matches the receive that is meant for it.
/// 4. A piece is received into scratch memory that the piece before does not use.
/// 5. Ranks that give an allreduce different counts, dtypes, operations or scales find out before they send slices, or,
///    where they gather all, before they use what they got (call_match.hpp).
///
/// Cost for B bytes on n ranks. Gathered, at most max(16 KiB, 512 n) bytes in all: one MPI_Allgather. By way of others:
/// log n messages of B / 2 each, and an MPI_Allgather of B. Straight: each rank sends and receives 2 B (n - 1) / n
/// bytes, in 2 (n - 1) messages for each piece of at most 256 KiB n; reduce and reduce_scatter about half of that.
/// Scratch memory of at most 2 kScratchBytes, whatever the count. Host memory only, but for pieces with a DeviceSum.
/// Source: R. Thakur, R. Rabenseifner, W. Gropp, "Optimization of collective communication operations in MPICH", 2005;
/// J. Bruck et al., "Efficient algorithms for all-to-all communications in multiport message-passing systems", 1997
/// (slices by way of other ranks, which keep them apart, so that they are still reduced in rank order).
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include <mpi.h>

#include <mn/comm/calls/call_match.hpp>
#include <mn/comm/device/ordered_sum.hpp>
#include <mn/comm/messages/message_steps.hpp>
#include <mn/comm/messages/network_costs.hpp>
#include <mn/comm/mpi/reduce.hpp>

namespace mn {

/// Round t calls the first action for piece t, the second for piece t - 1, and so on, for pieces 0 to pieces - 1. Work
/// that an action starts overlaps the other actions of the round; the next action waits for it a round later.
template <class... Actions>
void in_pipeline(std::size_t pieces, const Actions&... actions) {
  for (std::size_t t = 0; t + 1 < pieces + sizeof...(actions); ++t) {
    std::size_t behind = 0;
    const auto call = [&](const auto& action) {
      if (t >= behind && t - behind < pieces) action(t - behind);
      ++behind;
    };
    (call(actions), ...);
  }
}

/// Sums in a device's memory, for a reducer whose data and messages lie there.
struct DeviceSum {
  /// Device memory of at least `bytes`, valid until the next call.
  std::function<std::byte*(std::size_t bytes)> reserve;
  /// Returns when the sum is in `operands.out`.
  std::function<void(const OrderedSum& operands, DType dtype)> sum;
};

class MessageReducer {
 public:
  /// From this size on a message's latency hardly counts, and a few slices stay in the cache.
  static constexpr std::size_t kSliceBytes = 256 * 1024;
  /// Slices of all ranks together; with very many ranks they are smaller.
  static constexpr std::size_t kScratchBytes = 16 * 1024 * 1024;

  /// `comm` is borrowed. Slices hold at most `count_limit` elements. Costs that are not given are measured when they
  /// are needed.
  MessageReducer(MPI_Comm comm, std::size_t count_limit, std::optional<NetworkCosts> costs = {});
  /// Sums data in a device's memory, which MPI takes. Only for pieces; there is no scale.
  MessageReducer(MPI_Comm comm, std::size_t count_limit, DeviceSum device);

  /// Collective, in place.
  void allreduce(void* data, std::size_t count, const Reduction& reduction);
  /// Collective: `recv` of `root`, which may be `send`, gets the reduction; ignored elsewhere.
  void reduce(const void* send, void* recv, std::size_t count, const Reduction& reduction, int root);
  /// Collective: recv gets part rank of the reduction of `send`, which holds size × `part_count` elements. `recv` may
  /// be that part of `send`.
  void reduce_scatter(const void* send, void* recv, std::size_t part_count, const Reduction& reduction);

  struct Slice {
    std::size_t offset;
    std::size_t length;
  };
  using Slices = std::vector<Slice>;  ///< [size] by the rank that reduces it

  /// A piece of an allreduce whose messages are under way. In the order of in_pipeline(), three are at a time.
  struct Piece {
    std::byte* data = nullptr;
    Slices slices;                  ///< the piece, cut for the ranks
    std::byte* received = nullptr;  ///< this rank's slice as the others have it
    MessageSteps exchanging;
    MessageSteps spreading;
  };
  /// Collective: sends the slices of piece `number`, of `count` elements in `data`; no piece of the sequence has more
  /// than `most`, which is at most most_elements().
  [[nodiscard]] Piece begin(std::byte* data, std::size_t count, std::size_t number, std::size_t most, DType dtype);
  /// Collective: reduces this rank's slice and sends it.
  void reduce(Piece& piece, const Reduction& reduction) const;
  /// Collective: returns when the piece holds the result.
  static void finish(Piece& piece) { piece.spreading.finish(); }
  /// Elements that a piece for begin() may have, between so many ranks.
  [[nodiscard]] static std::size_t most_elements(int ranks, std::size_t element_bytes, std::size_t count_limit);

 private:
  struct Free {
    void operator()(std::byte* memory) const noexcept;
  };

  [[nodiscard]] std::size_t slice_elements(std::size_t element_bytes) const;
  [[nodiscard]] std::byte* scratch(std::size_t bytes);
  [[nodiscard]] bool may_gather(std::size_t count, std::size_t element_bytes) const;
  [[nodiscard]] ExchangeKind kind_for(std::size_t count, std::size_t element_bytes);
  void allreduce_gathered(void* data, std::size_t count, const Reduction& reduction);
  void allreduce_logarithmic(std::byte* data, std::size_t count, const Reduction& reduction);
  /// Sends the blocks whose way to their rank has a hop of this length, and keeps what comes in their place.
  void forward(std::byte* blocks, std::byte* packed, std::size_t block, std::size_t hop) const;
  void allreduce_pairwise(std::byte* data, std::size_t count, const Reduction& reduction);
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
  std::optional<NetworkCosts> costs_;
  std::optional<DeviceSum> device_;  // no value: on the host
  int rank_ = 0;
  int size_ = 1;
  std::uint16_t gathered_ = 0;  // calls so far
  std::unique_ptr<std::byte, Free> scratch_;
  std::size_t scratch_bytes_ = 0;
};

}  // namespace mn

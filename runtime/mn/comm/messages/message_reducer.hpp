/// Reductions over MPI messages; every element is reduced in rank order. Communicator uses these reductions, also for
/// the backends naive and flat; NodeReducer and GpuNodeSum use them between nodes.
///
/// If buffers are small, every rank gathers the buffers of all ranks, and reduces them. A larger buffer is cut into
/// slices, one for each rank. A rank receives its slice of every other rank's buffer, reduces these slices, and sends
/// the result to all ranks. If a logarithmic exchange is quicker (NetworkCosts), slices travel by way of other ranks.
/// Otherwise they travel directly, and a large buffer is first cut into pieces, each of them with slices. Three pieces
/// are under way at a time: the ranks exchange the slices of the newest, reduce the second, and send the results of the
/// oldest.
///
/// Invariants:
/// 1. Element i of a result is the reduction of the ranks' elements i in rank order. The bits are equal on all ranks,
///    and depend neither on the count nor on MPI's choice of algorithm.
/// 2. In step s rank r sends to rank r + s, so no two ranks send to one rank in a step. A few steps are in flight at a
///    time (MessageSteps), to hide latency on large networks.
/// 3. All ranks post their messages in equal order with the same tag, so each message matches the right receive.
/// 4. A piece is received into scratch memory that the previous piece does not use. The memory of the piece before the
///    previous is free again, because that piece is already reduced.
/// 5. If ranks pass different counts, dtypes, operations or scales to allreduce, they find the difference before they
///    send slices or use gathered elements (call_match.hpp).
///
/// Cost for B bytes on n ranks. Gathered buffers, if n × B is at most max(16 KiB, 512 n): one MPI_Allgather. Slices
/// that travel by way of other ranks: log n messages of B / 2 each, and an MPI_Allgather of B. Slices that travel
/// directly: each rank sends and receives 2 B (n - 1) / n bytes, in 2 (n - 1) messages for each piece of at most n ×
/// 256 KiB. reduce and reduce_scatter take about half. Scratch memory: at most 2 × kScratchBytes. Buffers lie in host
/// memory, except with a DeviceSum. Source: R. Thakur, R. Rabenseifner, W. Gropp, "Optimization of collective
/// communication operations in MPICH", 2005; J. Bruck et al., "Efficient algorithms for all-to-all communications in
/// multiport message-passing systems", 1997.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <vector>

#include <mpi.h>

#include <mn/comm/calls/call_match.hpp>
#include <mn/comm/device/ordered_sum.hpp>
#include <mn/comm/messages/message_steps.hpp>
#include <mn/comm/messages/network_costs.hpp>
#include <mn/comm/mpi/reduce.hpp>

namespace mn {

/// Runs `actions` as the stages of a pipeline over `pieces` pieces: in round t the first action works on piece t, the
/// second on piece t - 1, and so on. Messages of one piece travel while its neighbors are reduced.
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

/// Memory and sums on a device, for a reducer whose buffers and messages lie in device memory.
struct DeviceSum {
  /// Returns device memory of at least `bytes`, valid until the next call of reserve().
  std::function<std::byte*(std::size_t bytes)> reserve;
  std::function<void(const OrderedSum& operands, DType dtype)> sum;
};

class MessageReducer {
 public:
  /// Size of a slice: large enough to hide a message's latency, and small enough that a few slices fit the cache.
  static constexpr std::size_t kSliceBytes = 256 * 1024;
  /// Largest size of all ranks' slices together. With very many ranks a slice is therefore smaller than kSliceBytes.
  static constexpr std::size_t kScratchBytes = 16 * 1024 * 1024;

  /// The caller frees `comm`. If `costs` is empty, the first reduction that chooses an algorithm measures the costs.
  explicit MessageReducer(MPI_Comm comm, std::optional<NetworkCosts> costs = {});
  /// Makes a reducer for buffers in device memory, which MPI must be able to send. Only begin(), reduce(Piece&) and
  /// finish() may be called. They apply no scale.
  MessageReducer(MPI_Comm comm, DeviceSum device);

  /// Collective: replaces the `count` elements at `data` by their reduction over ranks.
  void allreduce(void* data, std::size_t count, const Reduction& reduction);
  /// Collective: `recv` on `root` gets the reduction, and may be `send`. On all other ranks `recv` is ignored.
  void reduce(const void* send, void* recv, std::size_t count, const Reduction& reduction, int root);
  /// Collective: reduces `send`, which has `part_count` elements for each rank. `recv` gets this rank's part of the
  /// result, and may be this rank's part of `send`.
  void reduce_scatter(const void* send, void* recv, std::size_t part_count, const Reduction& reduction);

  struct Slice {
    std::size_t offset;
    std::size_t length;
  };
  using Slices = std::vector<Slice>;  ///< [r] the slice that rank r reduces

  struct Piece {
    std::byte* data = nullptr;
    Slices slices;                  ///< one for each rank
    std::byte* received = nullptr;  ///< this rank's slice of every other rank's buffer
    MessageSteps exchanging;
    MessageSteps spreading;
  };
  /// Collective: begins to exchange the slices of piece number `number`, the `count` elements at `data`. The buffer's
  /// largest piece has `most` elements, at most most_elements().
  [[nodiscard]] Piece begin(std::byte* data, std::size_t count, std::size_t number, std::size_t most, DType dtype);
  /// Collective: reduces the rank's own slice, and begins to send the result to all ranks.
  void reduce(Piece& piece, const Reduction& reduction) const;
  static void finish(Piece& piece) { piece.spreading.finish(); }
  /// Largest number of elements that a piece may have in begin() if its group has `ranks` ranks.
  [[nodiscard]] static std::size_t most_elements(int ranks, std::size_t element_bytes);

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
  /// Sends the blocks that take the hop of length `hop` (a power of two), and replaces them by the blocks received.
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
  std::optional<NetworkCosts> costs_;
  std::optional<DeviceSum> device_;  // no value: buffers lie on the host
  int rank_ = 0;
  int size_ = 1;
  std::uint16_t gathered_ = 0;  // number of calls of allreduce_gathered()
  std::unique_ptr<std::byte, Free> scratch_;
  std::size_t scratch_bytes_ = 0;
};

}  // namespace mn

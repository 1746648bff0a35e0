/// What messages between some ranks cost, and what follows from that: how a reduction between them exchanges its data,
/// and in how many pieces.
///
/// SliceExchange measures on all ranks at once, when a communicator over several nodes is made, and MessageReducer at
/// its first reduction of more than a few bytes. Both choose by it.
///
/// Invariants:
/// 1. All ranks hold the same numbers, so all choose alike.
/// 2. A choice changes times alone: each way reduces every element in rank order.
///
/// Cost, beside connections that MPI makes once: three messages of a byte, four exchanges of 8 bytes between all ranks
/// that exchange slices, one of 64 KiB, which says how much takes 8 ms, and three of so much, at most 1 MiB; two
/// MPI_Allreduce. Six milliseconds at 1 GB/s, and less than 50 down to 100 Mbit/s.
/// Source: A. Alexandrov, M. Ionescu, K. Schauser, C. Scheiman, "LogGP: incorporating long messages into the LogP
/// model", 1995.
#pragma once

#include <cstddef>

#include <mpi.h>

namespace mn {

/// The constants of the model. The defaults are those of a network of 50 Gbit/s.
struct NetworkCosts {
  double latency_s = 5e-6;   ///< until a message that travels alone has arrived
  double message_s = 1e-6;   ///< what each of many messages in flight adds
  double bytes_per_s = 5e9;  ///< that a rank sends, and receives at the same time

  /// MN_NETWORK, "LATENCY_US,MESSAGE_US,GB_PER_S", or what is measured: collective over `comm`, of which the ranks with
  /// a `peers` exchange messages in it, the others with MPI_COMM_NULL. UsageError on every rank if MN_NETWORK is wrong.
  [[nodiscard]] static NetworkCosts find(MPI_Comm comm, MPI_Comm peers);
};

/// How ranks bring the parts of an allreduce where they are reduced, and their results to all.
enum class ExchangeKind {
  kLogarithmic,  ///< by way of other ranks: 2 log n messages in a row, (log n) / 2 + 1 times the bytes
  kPairwise,     ///< straight: 2 (n - 1) messages, 2 (n - 1) / n times the bytes
};

/// How many bytes each rank exchanges in a measurement, where an exchange of `bytes` has taken so long: as many as take
/// a few milliseconds, from `bytes` to 1 MiB. Pure.
[[nodiscard]] std::size_t bytes_to_measure(double seconds, std::size_t bytes);

/// The quicker one for `bytes` of each of `ranks`. Pure.
[[nodiscard]] ExchangeKind quicker_exchange(const NetworkCosts& costs, int ranks, std::size_t bytes);

/// In how many pieces to exchange `bytes` of each of `ranks`, where other work on a piece takes as long as its exchange
/// and overlaps that of its neighbors: few enough that messages are large, and so many that what the first and the last
/// piece wait for is little. Pure.
[[nodiscard]] std::size_t best_pieces(const NetworkCosts& costs, int ranks, std::size_t bytes);

}  // namespace mn

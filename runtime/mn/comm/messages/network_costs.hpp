/// Costs of messages between ranks. They decide how a reduction exchanges its data, and in how many pieces.
/// SliceExchange measures them when a communicator over several nodes is made, MessageReducer in its first reduction of
/// more than a few bytes.
///
/// Invariants:
/// 1. All ranks hold equal numbers, and so make equal choices.
/// 2. A choice changes only times: every algorithm reduces each element in rank order.
///
/// Cost, beside MPI's connections: 6 ms at 1 GB/s, less than 50 ms down to 100 Mbit/s. Three messages of a byte;
/// between all ranks that exchange slices four exchanges of 8 bytes, one of 64 KiB, which tells the size that takes 8
/// ms, and three of that size, at most 1 MiB; two MPI_Allreduce. Source: A. Alexandrov, M. Ionescu, K. Schauser, C.
/// Scheiman, "LogGP: incorporating long messages into the LogP model", 1995.
#pragma once

#include <cstddef>

#include <mpi.h>

namespace mn {

/// Constants of the model. Defaults: a network of 50 Gbit/s.
struct NetworkCosts {
  double latency_s = 5e-6;   ///< time until a single message has arrived
  double message_s = 1e-6;   ///< time that each of many messages in flight adds
  double bytes_per_s = 5e9;  ///< bytes per second that a rank sends while it receives as many

  /// Reads MN_NETWORK, "LATENCY_US,MESSAGE_US,GB_PER_S", or measures. Collective over `comm`; ranks with a `peers`
  /// exchange messages in it, other ranks pass MPI_COMM_NULL. UsageError on every rank if MN_NETWORK is wrong.
  [[nodiscard]] static NetworkCosts find(MPI_Comm comm, MPI_Comm peers);
};

/// How an allreduce moves slices to the rank that reduces them, and results to all ranks.
enum class ExchangeKind {
  kLogarithmic,  ///< by way of other ranks: 2 log n messages in a row, (log n) / 2 + 1 times the bytes
  kPairwise,     ///< straight: 2 (n - 1) messages, 2 (n - 1) / n times the bytes
};

/// Bytes per rank for a measurement of a few milliseconds, up to 1 MiB, if an exchange of `bytes` took `seconds`. Pure.
[[nodiscard]] std::size_t bytes_to_measure(double seconds, std::size_t bytes);

/// The quicker kind for `bytes` of each of `ranks`. Pure.
[[nodiscard]] ExchangeKind quicker_exchange(const NetworkCosts& costs, int ranks, std::size_t bytes);

/// Best number of pieces for `bytes` of each of `ranks`, if other work on a piece takes as long as its exchange and
/// overlaps neighboring exchanges. Few pieces make large messages; many shorten the exposed work on the ends. Pure.
[[nodiscard]] std::size_t best_pieces(const NetworkCosts& costs, int ranks, std::size_t bytes);

}  // namespace mn

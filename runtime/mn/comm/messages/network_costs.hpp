/// Measures how much time messages between ranks take. From these costs a reduction chooses how to exchange data, and
/// in how many pieces. SliceExchange measures when a communicator over several nodes is made, MessageReducer in its
/// first reduction of more than a few bytes.
///
/// Invariants:
/// 1. All ranks hold equal numbers, and so make equal choices.
/// 2. A choice changes only how long a reduction takes, not its result: every algorithm reduces each element in rank
///    order.
///
/// Cost of the measurement, besides MPI's connections: 6 ms at 1 GB/s, and less than 50 ms on any network of at least
/// 100 Mbit/s. The ranks send three messages of a byte. Then all ranks that exchange slices make four exchanges of 8
/// bytes, an exchange of 64 KiB, from which they compute the size (at most 1 MiB) that takes 8 ms, and three exchanges
/// of that size. Two MPI_Allreduce make the numbers equal. Source: A. Alexandrov, M. Ionescu, K. Schauser, C. Scheiman,
/// "LogGP: incorporating long messages into the LogP model", 1995.
#pragma once

#include <cstddef>

#include <mpi.h>

namespace mn {

/// Three constants that describe the time of messages. The defaults describe a network of 50 Gbit/s.
struct NetworkCosts {
  double latency_s = 5e-6;   ///< time until a single message has arrived
  double message_s = 1e-6;   ///< time that each of many messages in flight adds
  double bytes_per_s = 5e9;  ///< bytes per second that a rank sends while it receives at the same rate

  /// Collective over `comm`. Reads the costs from rank 0's MN_NETWORK ("LATENCY_US,MESSAGE_US,GB_PER_S"), or measures
  /// them if it is not set. Ranks that exchange slices pass their communicator as `peers`, and all other ranks
  /// MPI_COMM_NULL. Throws UsageError on every rank if MN_NETWORK is malformed.
  [[nodiscard]] static NetworkCosts find(MPI_Comm comm, MPI_Comm peers);
};

/// How the slices of an allreduce travel to the ranks that reduce them, and the results to all ranks.
enum class ExchangeKind {
  kLogarithmic,  ///< by way of other ranks: 2 log n messages in a row, (log n) / 2 + 1 times the buffer's bytes
  kPairwise,     ///< directly: 2 (n - 1) messages, 2 (n - 1) / n times the buffer's bytes
};

/// Returns the message size for the second measurement, after a first exchange of `bytes` per rank took `seconds`. An
/// exchange of the returned size (at most 1 MiB) takes a few milliseconds.
[[nodiscard]] std::size_t bytes_to_measure(double seconds, std::size_t bytes);

[[nodiscard]] ExchangeKind quicker_exchange(const NetworkCosts& costs, int ranks, std::size_t bytes);

/// The best number of pieces into which `ranks` ranks cut buffers of `bytes`. Few pieces make large messages. Many
/// pieces shorten the work on the first and the last piece, which overlaps no exchange. The model assumes that the work
/// on a piece takes as long as its exchange, and overlaps the exchanges of the neighboring pieces.
[[nodiscard]] std::size_t best_pieces(const NetworkCosts& costs, int ranks, std::size_t bytes);

}  // namespace mn

/// Sends texts between ranks. Only the sender needs to know the length of a text. Communicator's calls on objects
/// (objects.cpp) use these functions.
///
/// 1. A text is two messages with the same tag: its length, directly followed by its bytes. A receiver that accepts any
///    rank or any tag takes the bytes from the rank that has sent the length, and with the length's tag.
/// 2. More than INT_MAX bytes travel as one element of a derived type (MpiCount).
///
/// Cost for n ranks: send_text, 2 messages; bcast_text, 2 MPI_Bcast; gather_texts, 2 (n - 1) messages at the root.
#pragma once

#include <string>
#include <vector>

#include <mn/comm/mpi/mpi.hpp>

namespace mn {

/// When a call that sends a text may return.
enum class SendMode {
  kBuffered,  ///< the call returns once MPI has taken the text, even if the receiver does not have it yet
  kDebug,     ///< in debug mode: the call returns once the receiver has begun to receive
};

void send_text(MPI_Comm comm, const std::string& text, int dest, int tag, SendMode mode);
/// Receives a text. `source` and `tag` may be MPI_ANY_SOURCE and MPI_ANY_TAG. `sender`, unless null, gets the source.
[[nodiscard]] std::string recv_text(MPI_Comm comm, int source, int tag, int* sender = nullptr);
[[nodiscard]] std::string bcast_text(MPI_Comm comm, const std::string& own, int root);
/// Collective: on `root`, returns the texts in rank order; on other ranks, an empty vector.
[[nodiscard]] std::vector<std::string> gather_texts(MPI_Comm comm, const std::string& own, int root);

}  // namespace mn

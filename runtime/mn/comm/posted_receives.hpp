/// Receives that have a message of two parts to wait for before MPI can be given them, in the order of their calls.
///
/// A message is a header and then elements, or a length and then bytes, with one tag. Who receives from any rank learns
/// from the first part whom the second comes from, so MPI cannot have both receives at once. Such a receive waits here,
/// and takes its message with MPI_Improbe: the first part, and at once the receive of the second. So does every later
/// receive that the same message would match. irecv(), recv() and recv_obj() post them.
///
/// Invariants:
/// 1. As MPI promises: of the receives that match a message the one that was posted first takes it, and of the messages
///    of one rank that match a receive the first one goes to it.
/// 2. Where MPI takes threads, a thread of this process takes messages as they come: a large send to a posted receive
///    ends, whatever its receiver waits for meanwhile. Elsewhere has_taken() alone does.
/// 3. One thread at a time looks for messages, and takes both parts without another in between.
/// 4. The thread calls MPI neither after MPI_Finalize has begun, nor with a communicator of which withdraw_receives()
///    has been told.
///
/// Cost: one load from memory for a receive where none waits here. The thread looks each 50 µs at first, later each 2
/// ms and sleeps where none waits.
#pragma once

#include <exception>
#include <functional>

#include <mpi.h>

namespace mn {

/// From construction on it is posted, until it has taken its message or is destroyed.
class PostedReceive {
 public:
  /// Takes the message's first part with MPI_Imrecv, and posts the receive of the second, unless the rank waits for
  /// this one and posts no other before. Any thread.
  using Take = std::function<void(MPI_Message& message, const MPI_Status& status)>;

  /// `source` and `tag` as MPI's, which may be any.
  PostedReceive(MPI_Comm comm, int source, int tag, Take take);
  ~PostedReceive();
  PostedReceive(const PostedReceive&) = delete;
  PostedReceive& operator=(const PostedReceive&) = delete;

  /// Looks for messages; whether it has taken its own. Throws what `take` has thrown, or CommError where MPI failed.
  [[nodiscard]] bool has_taken();
  /// Returns when it has; throws where a call with a time-out ends.
  void wait();

 private:
  friend class PostedReceives;
  MPI_Comm comm_;
  int source_;
  int tag_;
  Take take_;
  bool has_ended_ = false;  // it has taken its message, or failed
  std::exception_ptr error_;
};

/// Whether a receive would come behind one that might take its message: then it must be a PostedReceive too.
[[nodiscard]] bool follows_posted_receives(MPI_Comm comm, int source, int tag);

/// Before `comm` is freed: what is posted on it takes no message any more.
void withdraw_receives(MPI_Comm comm) noexcept;

}  // namespace mn

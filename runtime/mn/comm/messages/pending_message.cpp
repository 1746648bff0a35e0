#include <mn/comm/messages/pending_message.hpp>

#include <initializer_list>

#include <mn/core/error.hpp>

namespace mn {

PendingMessage::PendingMessage(std::string what, std::shared_ptr<CallCheck> calls, HostCopyPool* pool,
                               const BufferView& buffer)
    : what_(std::move(what)), calls_(std::move(calls)), buffer_(buffer), host_(buffer) {
  if (pool == nullptr) return;
  copies_ = pool->borrow(buffer.bytes());
  copies_->after(std::initializer_list<ConstBufferView>{buffer});
  copies_->reserve(buffer.bytes(), 1);
}

void PendingMessage::send(int dest, int tag, MPI_Comm comm) {
  peer_ = dest;
  if (copies_) {
    host_ = copies_->copy_in(buffer_);
    copies_->wait();
  }
  // Invariant 1: no other message with this tag goes to `dest` between the two messages.
  first_.emplace(ConstBufferView(), host_);
  mpi_check(MPI_Isend(first_->data(), first_->size(), MPI_BYTE, dest, tag, comm, &requests_[0]), what_);
  if (FirstMessage::holds(host_)) return;
  const MpiCount n(host_.count, host_.dtype);
  mpi_check(MPI_Isend(host_.data, n.count(), n.type(), dest, tag, comm, &requests_[1]), what_, host_.bytes());
}

void PendingMessage::receive(int source, int tag, MPI_Comm comm) {
  receives_ = true;
  if (copies_) host_ = copies_->room_for(buffer_);
  peer_ = source;
  first_.emplace();
  mpi_check(MPI_Irecv(first_->data(), first_->size(), MPI_BYTE, source, tag, comm, &requests_[0]), what_);
  if (FirstMessage::holds(host_)) return;
  // Invariants 1 and 3: MPI keeps the order of messages, so this receive takes the elements that follow.
  const MpiCount n(host_.count, host_.dtype);
  mpi_check(MPI_Irecv(host_.data, n.count(), n.type(), source, tag, comm, &requests_[1]), what_, host_.bytes());
}

void PendingMessage::wait() {
  const CallScope call = calls_->message(receives_ ? "wait for irecv" : "wait for isend", buffer_, peer_);
  in_background_.reset();
  wait_for_elements();
  if (!receives_ || !copies_) return;
  copies_->copy_out(buffer_, host_);
  copies_->wait();
}

void PendingMessage::wait_for_elements() {
  bool elements_follow = false;
  try {
    // A wrong count is then reported in mn's words, not in MPI's.
    if (requests_[0] != MPI_REQUEST_NULL) {
      MPI_Status status;
      mpi_wait(requests_[0], &status, what_);
      if (receives_) first_->set_size(received_bytes(status));
    }
    elements_follow = first_->announces_elements();
    if (receives_) {
      first_->take_head({}, what_);
      first_->check(host_, what_);
      if (FirstMessage::holds(host_)) return first_->take_elements(host_);
    }
    mpi_wait(requests_[1], MPI_STATUS_IGNORE, what_, host_.bytes());
  } catch (const CommError&) {
    if (is_in_use()) throw;  // the communicator was given up, so the elements may never arrive
    // Invariant 2: after the throw the caller may free the buffer, so MPI must not write to it any more. If elements
    // follow, their sender waits, so this rank receives them.
    if (!elements_follow) abandon();
    if (receives_) static_cast<void>(MPI_Wait(&requests_[1], MPI_STATUS_IGNORE));
    throw;
  }
}

bool PendingMessage::is_done() {
  CallTimeouts& timeouts = calls_->timeouts();
  const CallName call{receives_ ? "wait for irecv" : "wait for isend", 0, buffer_.count, buffer_.dtype, peer_};
  if (timeouts.timeout().count() > 0 && TimedCall::is_given_up(timeouts, call)) return true;  // wait() then throws
  int done = 0;
  MPI_Status status;
  mpi_check(MPI_Request_get_status(requests_[0], &done, &status), what_);
  if (done == 0) return false;
  if (receives_ && requests_[0] != MPI_REQUEST_NULL) first_->set_size(received_bytes(status));
  // No second message follows, or the first is wrong: wait() returns or throws at once.
  if (receives_ && !first_->announces_elements()) return true;
  mpi_check(MPI_Request_get_status(requests_[1], &done, MPI_STATUS_IGNORE), what_);
  return done != 0;
}

void PendingMessage::abandon() noexcept {
  // Cancels a receive that no message has matched. MPI ignores the cancellation if a message has.
  for (MPI_Request& request : requests_) {
    if (receives_ && request != MPI_REQUEST_NULL) static_cast<void>(MPI_Cancel(&request));
  }
}

}  // namespace mn

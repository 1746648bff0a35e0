/// A message between two ranks that is under way. The Request of an isend() or irecv() holds it.
///
/// Invariants:
/// 1. A message of mn is a FirstMessage. If it does not hold the elements, they directly follow in a message of MPI
///    with the same tag. MPI keeps the order of the two, so the irecv() that takes a first message also takes its
///    elements.
/// 2. If the first message differs from the receiver's buffer, the receiver throws, and MPI does not write to the
///    buffer any more.
/// 3. irecv() posts both receives at once. From then on the sender can finish while the receiver waits in any call of
///    MPI. Waits that do not call MPI let it move messages from time to time (progress.hpp).
#pragma once

#include <array>
#include <memory>
#include <optional>
#include <string>

#include <mpi.h>

#include <mn/comm/calls/call_check.hpp>
#include <mn/comm/calls/flight_recorder.hpp>
#include <mn/comm/device/host_copies.hpp>
#include <mn/comm/messages/first_message.hpp>
#include <mn/comm/messages/request.hpp>
#include <mn/comm/mpi/progress.hpp>
#include <mn/core/buffer.hpp>

namespace mn {

/// A message under way: one request of MPI for the first message, and one for elements that it does not hold.
class PendingMessage final : public Request::Impl {
 public:
  /// `what` begins the texts of errors. `pool` is null if the buffer needs no host copy.
  PendingMessage(std::string what, std::shared_ptr<CallCheck> calls, HostCopyPool* pool, const BufferView& buffer);

  // The caller calls either send() or receive(), once.

  void send(int dest, int tag, MPI_Comm comm);
  void receive(int source, int tag, MPI_Comm comm);

  void wait() override;
  bool is_done() override;
  /// Cancels receives that no message has matched yet, and leaves all other requests to MPI. Waits for no other rank.
  void abandon() noexcept override;
  [[nodiscard]] bool is_in_use() const noexcept override { return calls_->timeouts().failed(); }

 private:
  void wait_for_elements();

  std::string what_;
  std::shared_ptr<CallCheck> calls_;
  BufferView buffer_;
  BufferView host_;  // the buffer, or its host copy
  HostCopyPool::Borrowed copies_;
  PendingRequest pending_;
  std::optional<MessageInBackground> in_background_{std::in_place};  // no value once the program has called wait()
  std::optional<FirstMessage> first_;                                // set by send() and receive()
  std::array<MPI_Request, 2> requests_ = {MPI_REQUEST_NULL, MPI_REQUEST_NULL};
  bool receives_ = false;
  int peer_ = -1;
};

}  // namespace mn

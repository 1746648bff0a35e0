/// A message between two ranks that is under way: isend() and irecv() put it into their Request.
///
/// Invariants:
/// 1. A message is a header, then the elements, between two ranks with one tag and nothing between. MPI keeps their
///    order: the receive that takes a header takes its elements too.
/// 2. If the header differs from the receiver's buffer, the receiver throws, and MPI does not write to the buffer any
///    more.
/// 3. irecv() posts both receives at once: from then on its sender can finish, whatever calls of MPI the receiver waits
///    in. Waits that do not call MPI let it progress (progress.hpp).
#pragma once

#include <array>
#include <memory>
#include <optional>
#include <string>

#include <mpi.h>

#include <mn/comm/calls/call_check.hpp>
#include <mn/comm/calls/flight_recorder.hpp>
#include <mn/comm/device/host_copies.hpp>
#include <mn/comm/messages/message_header.hpp>
#include <mn/comm/messages/request.hpp>
#include <mn/comm/mpi/progress.hpp>
#include <mn/core/buffer.hpp>

namespace mn {

/// The header and the elements of a message, each a request of MPI.
class PendingMessage final : public Request::Impl {
 public:
  /// `what` begins the text of errors; `pool` is null if MPI takes the buffer itself.
  PendingMessage(std::string what, std::shared_ptr<CallCheck> calls, HostCopyPool* pool, const BufferView& buffer);

  // Call one of the two, once.

  void send(int dest, int tag, const MpiChannel& channel);
  void receive(int source, int tag, const MpiChannel& channel);

  void wait() override;
  bool is_done() override;
  /// Waits for no other rank: cancels unmatched receives, and leaves the rest alone.
  void abandon() noexcept override;
  [[nodiscard]] bool is_in_use() const noexcept override { return calls_->limits().failed(); }

 private:
  void wait_for_elements();

  std::string what_;
  std::shared_ptr<CallCheck> calls_;
  BufferView buffer_;
  BufferView host_;  // the buffer, or its host copy
  HostCopyPool::Borrowed copies_;
  PendingRequest pending_;
  std::optional<MessageInBackground> in_background_{std::in_place};  // until wait()
  MessageHeader header_;
  int header_bytes_ = 0;  // received bytes of the header
  std::array<MPI_Request, 2> requests_ = {MPI_REQUEST_NULL, MPI_REQUEST_NULL};
  bool receives_ = false;
  int peer_ = -1;
};

}  // namespace mn

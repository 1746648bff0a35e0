/// A message between two ranks that is under way: what isend() and irecv() put into their Request.
///
/// Invariants: 1 to 4 of point_to_point.cpp.
#pragma once

#include <array>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include <mpi.h>

#include <mn/comm/calls/call_check.hpp>
#include <mn/comm/calls/flight_recorder.hpp>
#include <mn/comm/device/host_copies.hpp>
#include <mn/comm/messages/message_header.hpp>
#include <mn/comm/messages/request.hpp>
#include <mn/comm/mpi/progress.hpp>
#include <mn/core/buffer.hpp>

namespace mn {

/// The header and the elements of a message, each a request of MPI's.
class PendingMessage final : public Request::Impl {
 public:
  /// `what` begins the text of errors; `pool` is null if MPI takes the buffer as it is. `calls` are those of the
  /// communicator.
  PendingMessage(std::string what, std::shared_ptr<CallCheck> calls, HostCopyPool* pool, const BufferView& buffer);

  // One of these begins it.

  void send(int dest, int tag, const MpiChannel& channel);
  void receive(int source, int tag, const MpiChannel& channel);

  void wait() override;
  bool is_done() override;
  /// Waits for nobody: cancels what has matched no message; has no effect on the rest.
  void abandon() noexcept override;
  [[nodiscard]] bool is_in_use() const noexcept override { return calls_->limits().failed(); }

 private:
  void wait_for_elements();

  std::string what_;
  std::shared_ptr<CallCheck> calls_;
  BufferView buffer_;
  BufferView host_;  // the buffer, or its copy on the host
  HostCopyPool::Borrowed copies_;
  PendingRequest pending_;
  std::optional<MessageInBackground> in_background_{std::in_place};  // until wait()
  MessageHeader header_;
  int header_bytes_ = 0;  // that came of the header
  std::array<MPI_Request, 2> requests_ = {MPI_REQUEST_NULL, MPI_REQUEST_NULL};
  bool receives_ = false;
  int peer_ = -1;
};

}  // namespace mn

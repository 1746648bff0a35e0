// The communicator's calls between two ranks: send, recv, isend, irecv, sendrecv.
//
// Invariants:
// 1. A message is a header, which says dtype and count, then the elements, between the same ranks with the same tag and
//    sent one after the other. MPI keeps their order, so the receive that takes a header takes its elements too.
// 2. The receiver compares the header with what it expects, and throws where they differ. recv() has then received
//    nothing else; what irecv() was given holds anything, and MPI does not write to it any more.
// 3. Counts above INT_MAX travel as one element of a derived type (MpiCount).
// 4. irecv() posts both receives at once: from then on its sender goes on, as MPI promises, whatever calls of MPI this
//    rank waits in. Waits that do not call MPI let it go on while there are requests (progress.hpp).
// 5. In debug mode a send is complete when its receiver is there, whatever the size: a program that relies on MPI's
//    buffers is found with small messages too.
//
// Cost: 16 bytes more for a message, sent without waiting for the receiver. A device buffer that MPI does not take is
// staged: by the communicator's own stage where the call waits, by one that the Request borrows where it does not.
#include <array>
#include <chrono>
#include <initializer_list>
#include <optional>
#include <thread>
#include <utility>

#include <mn/comm/call_check.hpp>
#include <mn/comm/communicator.hpp>
#include <mn/comm/host_stage.hpp>
#include <mn/comm/progress.hpp>
#include <mn/core/error.hpp>
#include <mn/core/log.hpp>

namespace mn {
namespace {

constexpr std::uint32_t kMessageMagic = 0x6d6e6d31;               // "mnm1"
constexpr auto kSendPatience = std::chrono::seconds(3);           // in debug mode, before a line
constexpr auto kBetweenLooks = std::chrono::microseconds(50);     // at a send that waits
constexpr auto kTestWithoutSleep = std::chrono::milliseconds(1);  // without sleep

struct MessageHeader {
  std::uint32_t magic = 0;
  std::uint32_t dtype = 0;
  std::uint64_t count = 0;
};
static_assert(sizeof(MessageHeader) == 16);

MessageHeader header_of(const ConstBufferView& buffer) {
  return {kMessageMagic, static_cast<std::uint32_t>(buffer.dtype), buffer.count};
}

std::string elements_text(std::uint64_t count, DType dtype) {
  return std::to_string(count) + " " + std::string(name_of(dtype));
}

/// Throws unless `header`, of which MPI received `bytes`, is of a message like `expected`.
void check_header(const MessageHeader& header, int bytes, const ConstBufferView& expected, const std::string& what) {
  if (bytes != sizeof header || header.magic != kMessageMagic) {
    throw CommError(what + ": the message was not sent by send(): receive with recv_obj what send_obj has sent");
  }
  const auto dtype = static_cast<DType>(header.dtype);
  if (header.count == expected.count && dtype == expected.dtype) return;
  throw CommError(what + ": " + elements_text(header.count, dtype) + " came, " +
                  elements_text(expected.count, expected.dtype) +
                  " were expected: send and recv must agree on count and dtype");
}

int header_bytes(const MPI_Status& status) {
  int bytes = 0;
  mpi_check(MPI_Get_count(&status, MPI_BYTE, &bytes), "MPI_Get_count");
  return bytes;
}

std::string sending(const ConstBufferView& buffer, int dest) {
  return "send of " + elements_text(buffer.count, buffer.dtype) + " to rank " + std::to_string(dest);
}

std::string receiving(int source) {
  return "recv from " + (source == Communicator::kAnySource ? "any rank" : "rank " + std::to_string(source));
}

/// One line once a send has waited too long for its receiver.
void report_waiting_send(MPI_Comm comm, const std::string& what, int dest, int tag) {
  int waiting = 0;
  mpi_check(MPI_Iprobe(dest, MPI_ANY_TAG, comm, &waiting, MPI_STATUS_IGNORE), "MPI_Iprobe");
  const std::string other = "rank " + std::to_string(dest);
  std::string text = "debug mode: " + what + " with tag " + std::to_string(tag) + " waits for its receiver";
  if (waiting != 0)
    text += ", and a message from " + other + " waits here: perhaps both ranks send before they receive";
  log_warning(text + "; let one of the two receive first, or use sendrecv or isend");
}

/// MPI_Send that waits for the receiver, and says so when that takes long.
void send_in_debug_mode(const ConstBufferView& buffer, const MpiCount& n, int dest, int tag, MPI_Comm comm,
                        const std::string& what) {
  MPI_Request request = MPI_REQUEST_NULL;
  // (5): synchronous, where MPI would buffer a small message.
  mpi_check(MPI_Issend(buffer.data, n.count(), n.type(), dest, tag, comm, &request), what, buffer.bytes());
  const auto begin = std::chrono::steady_clock::now();
  bool reported = false;
  for (int done = 0; done == 0;) {
    mpi_check(MPI_Test(&request, &done, MPI_STATUS_IGNORE), what, buffer.bytes());
    check_limits();
    const auto waited = std::chrono::steady_clock::now() - begin;
    if (done != 0 || waited < kTestWithoutSleep) continue;
    if (waited > kSendPatience && !std::exchange(reported, true)) report_waiting_send(comm, what, dest, tag);
    std::this_thread::sleep_for(kBetweenLooks);
  }
}

/// One message: its header and its elements, each a request of MPI's.
class Message final : public Request::Impl {
 public:
  /// `stages`: null if MPI takes the buffer as it is. `calls` are those of the communicator.
  Message(std::string what, std::shared_ptr<CallCheck> calls, HostStages* stages, const BufferView& buffer)
      : what_(std::move(what)), calls_(std::move(calls)), buffer_(buffer), host_(buffer) {
    if (stages == nullptr) return;
    stage_ = stages->borrow(buffer.bytes());
    stage_->after(std::initializer_list<ConstBufferView>{buffer});
    stage_->reserve(buffer.bytes(), 1);
  }

  void send(int dest, int tag, MPI_Comm comm, std::size_t limit) {
    peer_ = dest;
    if (stage_) {
      host_ = stage_->copy_in(buffer_);
      stage_->wait();
    }
    // (1): nothing may be sent to this rank with this tag between the two.
    header_ = header_of(host_);
    mpi_check(MPI_Isend(&header_, sizeof header_, MPI_BYTE, dest, tag, comm, &requests_[0]), what_);
    if (host_.count == 0) return;
    const MpiCount n(host_.count, host_.dtype, limit);
    mpi_check(MPI_Isend(host_.data, n.count(), n.type(), dest, tag, comm, &requests_[1]), what_, host_.bytes());
  }

  void receive(int source, int tag, MPI_Comm comm, std::size_t limit) {
    receives_ = true;
    peer_ = source;
    if (stage_) host_ = stage_->room_for(buffer_);
    mpi_check(MPI_Irecv(&header_, sizeof header_, MPI_BYTE, source, tag, comm, &requests_[0]), what_);
    if (host_.count == 0) return;
    // (4): at once, though the header may say that other elements come. (1): it cannot take another message's.
    const MpiCount n(host_.count, host_.dtype, limit);
    mpi_check(MPI_Irecv(host_.data, n.count(), n.type(), source, tag, comm, &requests_[1]), what_, host_.bytes());
  }

  void wait() override {
    const CallScope call = calls_->message(receives_ ? "wait for irecv" : "wait for isend", buffer_, peer_);
    bool elements_follow = false;  // their sender has sent them, or is about to
    try {
      // The header alone first: elements of another count would be an error of MPI's without our words.
      MPI_Status status;
      mpi_wait(requests_[0], &status, what_);
      const int bytes = receives_ ? header_bytes(status) : 0;
      elements_follow = bytes == sizeof header_ && header_.magic == kMessageMagic && header_.count > 0;
      if (receives_) check_header(header_, bytes, host_, what_);
      mpi_wait(requests_[1], MPI_STATUS_IGNORE, what_, host_.bytes());
    } catch (const CommError&) {
      if (is_in_use()) throw;  // given up: what is left would be waited for without end
      // (2): the caller may free its buffer. Elements on their way are received: cancelled, their sender waits forever.
      if (!elements_follow) abandon();
      if (receives_) static_cast<void>(MPI_Wait(&requests_[1], MPI_STATUS_IGNORE));
      throw;
    }
    if (!receives_ || !stage_) return;
    stage_->copy_out(buffer_, host_);
    stage_->wait();
  }

  /// Has no effect on a receive that has matched a message, for which MPI_Wait then waits; for one that has not, that
  /// returns at once. Waits for nobody itself.
  void abandon() noexcept override {
    for (MPI_Request& request : requests_) {
      if (receives_ && request != MPI_REQUEST_NULL) static_cast<void>(MPI_Cancel(&request));
    }
  }

  [[nodiscard]] bool is_in_use() const noexcept override { return calls_->limits().failed(); }

  bool is_done() override {
    int done = 0;
    mpi_check(MPI_Request_get_status(requests_[0], &done, MPI_STATUS_IGNORE), what_);
    if (done == 0) return false;
    mpi_check(MPI_Request_get_status(requests_[1], &done, MPI_STATUS_IGNORE), what_);
    return done != 0;
  }

 private:
  std::string what_;
  std::shared_ptr<CallCheck> calls_;
  BufferView buffer_;
  BufferView host_;  // of it, or itself
  HostStages::Borrowed stage_;
  PendingRequest pending_;
  MessageHeader header_;
  std::array<MPI_Request, 2> requests_ = {MPI_REQUEST_NULL, MPI_REQUEST_NULL};
  bool receives_ = false;
  int peer_ = -1;
};

/// Where the wait is given up, MPI does not write to the header any more.
void receive_header(MessageHeader& header, int source, int tag, MPI_Comm comm, MPI_Status& status) {
  const std::string what = receiving(source == MPI_ANY_SOURCE ? Communicator::kAnySource : source);
  MPI_Request request = MPI_REQUEST_NULL;
  mpi_check(MPI_Irecv(&header, sizeof header, MPI_BYTE, source, tag, comm, &request), what);
  try {
    mpi_wait(request, &status, what);
  } catch (const CommError&) {
    if (request != MPI_REQUEST_NULL && MPI_Cancel(&request) == MPI_SUCCESS) MPI_Wait(&request, MPI_STATUS_IGNORE);
    throw;
  }
}

}  // namespace

void Communicator::send(ConstBufferView buffer, int dest, int tag) {
  calls_->require_open("send");
  check_peer("send", "dest", dest, rank(), size());
  check_tag("send", tag, kMaxTag);
  check_buffer("send", "buffer", buffer, device_);
  const CallScope call = calls_->message("send", buffer, dest);
  on_host(stage_for_mpi(buffer), buffer, {}, [&](ConstBufferView in, BufferView) {
    const std::string what = sending(in, dest);
    const MessageHeader header = header_of(in);
    mpi_check(MPI_Send(&header, sizeof header, MPI_BYTE, dest, tag, mpi_comm()), what);
    if (in.count == 0) return;
    const MpiCount n(in.count, in.dtype, count_limit_);
    if (debug()) return send_in_debug_mode(in, n, dest, tag, mpi_comm(), what);
    call_mpi(MPI_Send, MPI_Isend, what, in.bytes(), in.data, n.count(), n.type(), dest, tag, mpi_comm());
  });
}

int Communicator::recv(BufferView buffer, int source, int tag) {
  calls_->require_open("recv");
  if (source != kAnySource) check_peer("recv", "source", source, rank(), size());
  if (tag != kAnyTag) check_tag("recv", tag, kMaxTag);
  check_buffer("recv", "buffer", buffer, device_);
  const CallScope call = calls_->message("recv", buffer, source == kAnySource ? -1 : source);
  MPI_Status status = {};
  on_host(stage_for_mpi(buffer), {}, buffer, [&](ConstBufferView, BufferView out) {
    MessageHeader header;
    receive_header(header, source == kAnySource ? MPI_ANY_SOURCE : source, tag, mpi_comm(), status);
    // (1): the elements come from whoever sent the header, with its tag, though this receive takes any.
    const std::string what = receiving(status.MPI_SOURCE);
    check_header(header, header_bytes(status), out, what);
    if (out.count == 0) return;
    const MpiCount n(out.count, out.dtype, count_limit_);
    const auto receive = [](auto... arguments) { return MPI_Recv(arguments..., MPI_STATUS_IGNORE); };
    call_mpi(receive, MPI_Irecv, what, out.bytes(), out.data, n.count(), n.type(), status.MPI_SOURCE, status.MPI_TAG,
             mpi_comm());
  });
  return status.MPI_SOURCE;
}

Request Communicator::isend(ConstBufferView buffer, int dest, int tag) {
  calls_->require_open("isend");
  check_peer("isend", "dest", dest, rank(), size());
  check_tag("isend", tag, kMaxTag);
  check_buffer("isend", "buffer", buffer, device_);
  const CallScope call = calls_->message("isend", buffer, dest);
  const BufferView view(const_cast<void*>(buffer.data), buffer.count, buffer.dtype, buffer.device,
                        buffer.stream);  // only read
  auto message = std::make_unique<Message>(sending(buffer, dest), calls_, stages_for_request(buffer), view);
  message->send(dest, tag, mpi_comm(), count_limit_);
  return Request(std::move(message));
}

Request Communicator::irecv(BufferView buffer, int source, int tag) {
  calls_->require_open("irecv");
  check_peer("irecv", "source", source, rank(), size());
  if (tag != kAnyTag) check_tag("irecv", tag, kMaxTag);
  check_buffer("irecv", "buffer", buffer, device_);
  const CallScope call = calls_->message("irecv", buffer, source);
  auto message = std::make_unique<Message>(receiving(source), calls_, stages_for_request(buffer), buffer);
  message->receive(source, tag, mpi_comm(), count_limit_);
  return Request(std::move(message));
}

void Communicator::sendrecv(ConstBufferView send, int dest, BufferView recv, int source, int tag) {
  // Not two blocking calls: in a ring every rank would send first, and none receive.
  Request sent = isend(send, dest, tag);
  this->recv(recv, source, tag);
  sent.wait();
}

}  // namespace mn

#include <mn/comm/messages/first_message.hpp>

#include <cassert>
#include <chrono>
#include <cstring>
#include <thread>
#include <utility>

#include <mn/comm/calls/call_timeouts.hpp>
#include <mn/core/error.hpp>
#include <mn/core/log.hpp>

namespace mn {
namespace {

constexpr std::uint32_t kMagic = 0x6d6e6d31;  // "mnm1": marks messages of send() and isend()

thread_local std::unique_ptr<std::byte[]> spare_room;  // malloc would take as long as the message

std::string elements_text(std::uint64_t count, DType dtype) {
  return std::to_string(count) + " " + std::string(name_of(dtype));
}

constexpr auto kSendPatience = std::chrono::seconds(3);           // then a send in debug mode logs a line
constexpr auto kBetweenTests = std::chrono::microseconds(50);     // between two tests of a waiting send
constexpr auto kTestWithoutSleep = std::chrono::milliseconds(1);  // at first a waiting send does not sleep

void report_waiting_send(MPI_Comm comm, const std::string& what, int dest, int tag) {
  int waiting = 0;
  mpi_check(MPI_Iprobe(dest, MPI_ANY_TAG, comm, &waiting, MPI_STATUS_IGNORE), "MPI_Iprobe");
  const std::string other = "rank " + std::to_string(dest);
  std::string text = "debug mode: " + what + " with tag " + std::to_string(tag) + " waits for its receiver";
  if (waiting != 0)
    text += ", and a message from " + other + " waits here: perhaps both ranks send before they receive";
  log_warning(text + "; let one of the two receive first, or use sendrecv or isend");
}

}  // namespace

FirstMessage::FirstMessage()
    : bytes_(spare_room ? std::move(spare_room) : std::make_unique_for_overwrite<std::byte[]>(kRoom)) {}

FirstMessage::FirstMessage(const ConstBufferView& head, const ConstBufferView& elements) : FirstMessage() {
  assert(head.bytes() <= kMaxHead);
  const Header header{kMagic, static_cast<std::uint16_t>(elements.dtype), static_cast<std::uint16_t>(head.bytes()),
                      elements.count};
  std::byte* to = bytes_.get();
  const auto append = [&to](const void* from, std::size_t bytes) {
    if (bytes > 0) std::memcpy(to, from, bytes);
    to += bytes;
  };
  append(&header, sizeof header);
  append(head.data, head.bytes());
  if (holds(elements)) append(elements.data, elements.bytes());
  size_ = static_cast<int>(to - bytes_.get());
}

FirstMessage::~FirstMessage() {
  if (bytes_) spare_room = std::move(bytes_);
}

FirstMessage::Header FirstMessage::header() const noexcept {
  Header header;
  std::memcpy(&header, bytes_.get(), sizeof header);
  return header;
}

bool FirstMessage::is_whole() const noexcept {
  if (size_ < static_cast<int>(sizeof(Header)) || header().magic != kMagic) return false;
  const ConstBufferView elements(nullptr, header().count, static_cast<DType>(header().dtype));
  const std::size_t held = holds(elements) ? elements.bytes() : 0;
  return static_cast<std::size_t>(size_) == sizeof(Header) + header().head_bytes + held;
}

bool FirstMessage::announces_elements() const noexcept {
  return is_whole() && !holds({nullptr, header().count, static_cast<DType>(header().dtype)});
}

void FirstMessage::take_head(const BufferView& head, const std::string& what) const {
  if (!is_whole() || header().head_bytes != head.bytes()) {
    throw CommError(what + ": the message was sent by a call of another kind: receive with recv_obj what send_obj " +
                    "has sent, and with recv_tensor what send_tensor has sent");
  }
  if (head.count > 0) std::memcpy(head.data, bytes_.get() + sizeof(Header), head.bytes());
}

void FirstMessage::check(const ConstBufferView& expected, const std::string& what) const {
  const auto sent_dtype = static_cast<DType>(header().dtype);
  if (header().count == expected.count && sent_dtype == expected.dtype) return;
  throw CommError(what + ": " + elements_text(header().count, sent_dtype) + " came, " +
                  elements_text(expected.count, expected.dtype) +
                  " were expected: send and recv must agree on count and dtype");
}

void FirstMessage::take_elements(const BufferView& out) const {
  if (out.count > 0) std::memcpy(out.data, bytes_.get() + sizeof(Header) + header().head_bytes, out.bytes());
}

int received_bytes(const MPI_Status& status) {
  int bytes = 0;
  mpi_check(MPI_Get_count(&status, MPI_BYTE, &bytes), "MPI_Get_count");
  return bytes;
}

std::string describe_send(const ConstBufferView& buffer, int dest) {
  return "send of " + elements_text(buffer.count, buffer.dtype) + " to rank " + std::to_string(dest);
}

std::string describe_recv(int source) {
  return "recv from " + (source == MPI_ANY_SOURCE ? "any rank" : "rank " + std::to_string(source));
}

void send_in_debug_mode(const ConstBufferView& buffer, const MpiCount& n, int dest, int tag, MPI_Comm comm,
                        const std::string& what) {
  MPI_Request request = MPI_REQUEST_NULL;
  // MPI_Send would buffer a small message and return before the receiver has begun to receive.
  mpi_check(MPI_Issend(buffer.data, n.count(), n.type(), dest, tag, comm, &request), what, buffer.bytes());
  const auto begin = std::chrono::steady_clock::now();
  bool reported = false;
  for (int done = 0; done == 0;) {
    mpi_check(MPI_Test(&request, &done, MPI_STATUS_IGNORE), what, buffer.bytes());
    check_timeout();
    const auto waited = std::chrono::steady_clock::now() - begin;
    if (done != 0 || waited < kTestWithoutSleep) continue;
    if (waited > kSendPatience && !std::exchange(reported, true)) report_waiting_send(comm, what, dest, tag);
    std::this_thread::sleep_for(kBetweenTests);
  }
}

}  // namespace mn

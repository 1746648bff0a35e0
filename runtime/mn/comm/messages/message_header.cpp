#include <mn/comm/messages/message_header.hpp>

#include <chrono>
#include <thread>
#include <utility>

#include <mn/comm/calls/call_timeouts.hpp>
#include <mn/core/error.hpp>
#include <mn/core/log.hpp>

namespace mn {
namespace {

constexpr std::uint32_t kMagic = 0x6d6e6d31;  // "mnm1": marks messages of send() and isend()

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

MessageHeader MessageHeader::of(const ConstBufferView& buffer) {
  return {kMagic, static_cast<std::uint32_t>(buffer.dtype), buffer.count};
}

bool MessageHeader::is_whole(int bytes) const noexcept { return bytes == sizeof *this && magic == kMagic; }

void MessageHeader::check(int bytes, const ConstBufferView& expected, const std::string& what) const {
  if (!is_whole(bytes)) {
    throw CommError(what + ": the message was not sent by send(): receive with recv_obj what send_obj has sent");
  }
  const auto sent_dtype = static_cast<DType>(dtype);
  if (count == expected.count && sent_dtype == expected.dtype) return;
  throw CommError(what + ": " + elements_text(count, sent_dtype) + " came, " +
                  elements_text(expected.count, expected.dtype) +
                  " were expected: send and recv must agree on count and dtype");
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

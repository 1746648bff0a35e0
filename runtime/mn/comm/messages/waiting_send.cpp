#include <mn/comm/messages/waiting_send.hpp>

#include <chrono>
#include <thread>
#include <utility>

#include <mn/comm/calls/call_limits.hpp>
#include <mn/core/log.hpp>

namespace mn {
namespace {

constexpr auto kSendPatience = std::chrono::seconds(3);           // then debug mode reports the send
constexpr auto kBetweenTests = std::chrono::microseconds(50);     // while a send waits
constexpr auto kTestWithoutSleep = std::chrono::milliseconds(1);  // without sleep

/// Logs one line for a send that has waited too long for its receiver.
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

void send_in_debug_mode(const ConstBufferView& buffer, const MpiCount& n, int dest, int tag, MPI_Comm comm,
                        const std::string& what) {
  MPI_Request request = MPI_REQUEST_NULL;
  // Synchronous: MPI_Send would buffer a small message.
  mpi_check(MPI_Issend(buffer.data, n.count(), n.type(), dest, tag, comm, &request), what, buffer.bytes());
  const auto begin = std::chrono::steady_clock::now();
  bool reported = false;
  for (int done = 0; done == 0;) {
    mpi_check(MPI_Test(&request, &done, MPI_STATUS_IGNORE), what, buffer.bytes());
    check_limits();
    const auto waited = std::chrono::steady_clock::now() - begin;
    if (done != 0 || waited < kTestWithoutSleep) continue;
    if (waited > kSendPatience && !std::exchange(reported, true)) report_waiting_send(comm, what, dest, tag);
    std::this_thread::sleep_for(kBetweenTests);
  }
}

}  // namespace mn

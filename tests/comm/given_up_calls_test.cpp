// The other ranks and threads when a rank gives a communicator up, at a time-out or by abort().
#include <chrono>
#include <string>
#include <thread>
#include <vector>

#include "tests/comm/backends.hpp"
#include "tests/comm/call_timeouts_fixture.hpp"

namespace mn {
namespace {

using namespace std::chrono_literals;
using ::testing::AllOf;
using ::testing::HasSubstr;

class GivenUpCalls : public testing::CallTimeouts {};
class GivenUpCallsOfFlat : public GivenUpCalls {};

TEST_P(GivenUpCalls, ALateRankLearnsThatTheOthersHaveGivenUp_from_2_ranks) {
  const auto comm = create();
  if (!is_absent()) {
    EXPECT_NE(error_of([&] { comm->barrier(); }), "");
  }
  meet();
  if (is_absent()) {
    EXPECT_THAT(error_of([&] { comm->barrier(); }), HasSubstr("has given up"));
  }
  meet();
}

/// Even if all messages for the late rank have arrived.
TEST_P(GivenUpCalls, ALateRankGetsNoResultWithoutTheOthers_from_2_ranks) {
  static std::vector<float> values(3);
  static std::vector<float> all(3 * static_cast<std::size_t>(size_));
  for (const int which : {0, 1, 2}) {
    const auto comm = create();
    const auto call = [&] {
      if (which == 0) return comm->allreduce(values);
      which == 1 ? comm->gather(values, all, size_ - 1) : comm->bcast(values, 0);
    };
    if (!is_absent()) {
      EXPECT_NE(error_of(call), "") << which;
    }
    meet();
    if (is_absent()) {
      EXPECT_THAT(error_of(call), HasSubstr("has given up")) << which;
    }
    meet();
  }
}

/// Later reasons follow from it.
TEST_P(GivenUpCalls, TheFirstReasonIsKept) {
  const auto comm = create(60s);
  comm->abort("no more data");
  comm->abort("and nothing to do");
  EXPECT_THAT(error_of([&] { comm->barrier(); }), HasSubstr("no more data"));
  meet();
}

TEST_P(GivenUpCalls, AbortEndsWaitsOnEveryRank) {
  const auto comm = create(60s);
  const auto begin = std::chrono::steady_clock::now();
  if (is_absent()) {
    comm->abort("no more data");
    EXPECT_THAT(error_of([&] { comm->barrier(); }), HasSubstr("no more data"));
  } else {
    EXPECT_THAT(error_of([&] { comm->barrier(); }),
                AllOf(HasSubstr(last_ + " has aborted the communicator"), HasSubstr("no more data")));
  }
  EXPECT_LT(std::chrono::steady_clock::now() - begin, 60s);
  meet();
}

/// abort() also ends loops that ask for a message.
TEST_P(GivenUpCalls, AbortEndsLooksForAMessage_from_2_ranks) {
  const auto comm = create(300s);
  static std::vector<float> values(3);
  if (is_absent()) {
    comm->abort("no more data");
  } else {
    Request request = comm->irecv(values, size_ - 1);
    while (!request.is_done()) std::this_thread::yield();
    EXPECT_THAT(error_of([&] { request.wait(); }), HasSubstr("no more data"));
  }
  meet();
}

TEST_P(GivenUpCalls, AnotherThreadAbortsItsOwnRanksWait_from_2_ranks) {
  const auto comm = create(60s);
  if (rank_ == 0) {
    std::thread watchdog([&] { comm->abort("the watchdog has had enough"); });
    EXPECT_THAT(error_of([&] { comm->barrier(); }), HasSubstr("the watchdog has had enough"));
    watchdog.join();
  }
  meet();
}

/// Whether memory below the caller's frame stays unchanged while messages arrive.
[[gnu::noinline]] bool stack_stays_as_it_is() {
  volatile unsigned char stack[65536];
  for (auto& each : stack) each = 0x5A;
  MPI_Barrier(MPI_COMM_WORLD);
  bool same = true;
  for (const auto& each : stack) same = same && each == 0x5A;
  return same;
}

/// A rank may join a call after the remaining ranks gave up.
TEST_P(GivenUpCallsOfFlat, LeaveToMpiWhatItMayWriteTo_from_2_ranks) {
  const auto comm = create();
  const auto call = [&] { static_cast<void>(comm->bcast_obj(std::string("of the last rank"), size_ - 1)); };
  if (!is_absent()) {
    EXPECT_NE(error_of(call), "");
  }
  meet();
  if (is_absent()) static_cast<void>(error_of(call));
  EXPECT_TRUE(stack_stays_as_it_is());
}

INSTANTIATE_TEST_SUITE_P(Backends, GivenUpCalls, ::testing::ValuesIn(testing::kBackendsOnOneNode),
                         [](const auto& test) { return test.param; });
INSTANTIATE_TEST_SUITE_P(Backends, GivenUpCallsOfFlat, ::testing::Values("flat"));

}  // namespace
}  // namespace mn

// How long calls may take: the time-out of a communicator, of some calls, and of a barrier.
#include <chrono>
#include <thread>

#include "tests/comm/backends.hpp"
#include "tests/comm/call_timeouts_fixture.hpp"

namespace mn {
namespace {

using namespace std::chrono_literals;
using ::testing::AllOf;
using ::testing::HasSubstr;

class ChosenTimeouts : public testing::CallTimeouts {};

TEST_P(ChosenTimeouts, MonitoredBarrierNeedsNoTimeoutOfTheCommunicator) {
  const auto comm = create(0ms);
  comm->monitored_barrier(60s);
  EXPECT_EQ(comm->timeout(), 0ms);
  if (size_ == 1) return;
  if (!is_absent()) {
    EXPECT_THAT(error_of([&] { comm->monitored_barrier(testing::kCallTimeout); }),
                AllOf(HasSubstr("monitored_barrier"), HasSubstr("call 2"), names_the_last()));
  }
  meet();
  EXPECT_THROW(comm->monitored_barrier(0ms), ArgumentError);
}

/// More milliseconds than fit into nanoseconds.
TEST_P(ChosenTimeouts, AreAsLongAsTheyMayBe) {
  const auto late = [this] { std::this_thread::sleep_for(is_absent() ? 50ms : 0ms); };
  const auto comm = create(std::chrono::hours(24 * 365 * 300));
  late();
  EXPECT_EQ(error_of([&] { comm->barrier(); }), "");
  late();
  EXPECT_EQ(error_of([&] { comm->monitored_barrier(std::chrono::milliseconds::max()); }), "");
}

TEST_P(ChosenTimeouts, CoverSomeCallsAlone) {
  const auto comm = create(0ms);
  {
    const CallTimeout limit(*comm, 60s);
    EXPECT_EQ(comm->timeout(), 60s);
    comm->barrier();
  }
  EXPECT_EQ(comm->timeout(), 0ms);
  comm->barrier();
  EXPECT_THROW(comm->set_timeout(-1ms), ArgumentError);
}

TEST_P(ChosenTimeouts, AreInheritedAndAgreedOn) {
  CommunicatorOptions options;
  options.device = Device();
  options.timeout = std::chrono::seconds(10 + rank_);
  const auto comm = create_communicator(GetParam(), MPI_COMM_WORLD, options);
  EXPECT_EQ(comm->timeout(), std::chrono::seconds(10 + size_ - 1));
  EXPECT_EQ(comm->split(0, rank_)->timeout(), comm->timeout());
  options.timeout = -1ms;
  EXPECT_THROW(static_cast<void>(create_communicator(GetParam(), MPI_COMM_WORLD, options)), ArgumentError);
}

INSTANTIATE_TEST_SUITE_P(Backends, ChosenTimeouts, ::testing::ValuesIn(testing::kBackendsOnOneNode),
                         [](const auto& test) { return test.param; });

}  // namespace
}  // namespace mn

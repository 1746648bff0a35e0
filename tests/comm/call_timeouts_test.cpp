// Calls that end at their time-out, and name the missing ranks.
#include <atomic>
#include <chrono>
#include <cstdlib>
#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include <mn/comm/node/shared_reducer.hpp>

#include "tests/comm/backends.hpp"
#include "tests/comm/call_timeouts_fixture.hpp"

namespace {

std::atomic<bool> probes_find_nothing{false};

}  // namespace

/// A rank looks for notices by it.
extern "C" int MPI_Iprobe(int source, int tag, MPI_Comm comm, int* found, MPI_Status* status) {
  const int code = PMPI_Iprobe(source, tag, comm, found, status);
  if (probes_find_nothing) *found = 0;
  return code;
}

namespace mn {
namespace {

using namespace std::chrono_literals;
using ::testing::AllOf;
using ::testing::AnyOf;
using testing::CallTimeouts;
using ::testing::HasSubstr;
using ::testing::Not;

class CallTimeoutsOfFlat : public CallTimeouts {};
class CallTimeoutsOfHierarchical : public CallTimeouts {};

using Calls = std::vector<std::pair<std::string, std::function<void(Communicator&)>>>;

/// Each call with its name in messages.
Calls collective_calls() {
  constexpr std::size_t count = 50'000;
  const auto part = [=] { return std::make_shared<std::vector<float>>(count, 1.0F); };
  const auto whole = [=](const Communicator& comm) {
    return std::make_shared<std::vector<float>>(count * static_cast<std::size_t>(comm.size()), 1.0F);
  };
  // Buffers of calls that gave up must stay.
  static std::vector<std::shared_ptr<std::vector<float>>> kept;
  const auto keep = [](std::shared_ptr<std::vector<float>> values) -> std::vector<float>& {
    kept.push_back(std::move(values));
    return *kept.back();
  };
  return {
      {"barrier", [](Communicator& comm) { comm.barrier(); }},
      {"allreduce", [=](Communicator& comm) { comm.allreduce(keep(part())); }},
      {"allreduce_grad",
       [=](Communicator& comm) {
         const BufferView gradient = keep(part());
         comm.sum_gradients({&gradient, 1}, 0.5);
       }},
      {"bcast", [=](Communicator& comm) { comm.bcast(keep(part()), comm.size() - 1); }},
      {"gather", [=](Communicator& comm) { comm.gather(keep(part()), keep(whole(comm)), 0); }},
      {"scatter", [=](Communicator& comm) { comm.scatter(keep(whole(comm)), keep(part()), comm.size() - 1); }},
      {"allgather", [=](Communicator& comm) { comm.allgather(keep(part()), keep(whole(comm))); }},
      {"alltoall", [=](Communicator& comm) { comm.alltoall(keep(whole(comm)), keep(whole(comm))); }},
      {"reduce", [=](Communicator& comm) { comm.reduce(keep(part()), keep(part()), ReduceOp::kSum, 0); }},
      {"reduce_scatter", [=](Communicator& comm) { comm.reduce_scatter(keep(whole(comm)), keep(part())); }},
      {"allgather_obj", [](Communicator& comm) { static_cast<void>(comm.allgather_obj(std::string("text"))); }},
      {"bcast_obj", [](Communicator& comm) { static_cast<void>(comm.bcast_obj(std::string("x"), comm.size() - 1)); }},
  };
}

/// Rank 0 waits in each call for the last rank; ranks between wait, too, unless the call ends there without the last
/// rank.
TEST_P(CallTimeouts, NameTheRankThatStaysAway_from_2_ranks) {
  for (const auto& [name, call] : collective_calls()) {
    const auto comm = create();
    comm->barrier();
    if (!is_absent()) {
      const std::string error = error_of([&, &call = call] { call(*comm); });
      if (rank_ == 0 || !error.empty()) {
        EXPECT_THAT(error, AllOf(HasSubstr(name), HasSubstr("call 2"), names_the_last()));
        EXPECT_TRUE(comm->has_given_up());
        EXPECT_THAT(error_of([&] { comm->barrier(); }), HasSubstr("can only be destroyed"));
      }
    }
    meet();
  }
}

TEST_P(CallTimeouts, LetCallsEndThatComeInTime) {
  const auto comm = create(60s);
  for (const auto& [name, call] : collective_calls()) {
    EXPECT_EQ(error_of([&, &call = call] { call(*comm); }), "") << name;
  }
  EXPECT_FALSE(comm->has_given_up());
}

/// With time for all answers, nobody else is named.
TEST_P(CallTimeoutsOfHierarchical, NameNobodyElse_from_3_ranks) {
  const auto comm = create(3s);
  if (!is_absent()) {
    EXPECT_THAT(error_of([&] { comm->barrier(); }), HasSubstr(": " + last_ + " has not joined it"));
  }
  meet();
}

/// Ranks that have done their part and need no data do not wait, either.
TEST_P(CallTimeouts, NameNobodyWhoHasDoneItsPart_from_3_ranks) {
  static std::vector<float> part(3);
  static std::vector<float> all(3 * static_cast<std::size_t>(size_));
  const std::vector<std::size_t> counts(static_cast<std::size_t>(size_), 3);
  const Calls calls = {
      {"gather", [](Communicator& comm) { comm.gather(part, all); }},
      {"gatherv", [&](Communicator& comm) { comm.gatherv(part, all, counts); }},
      {"gather_obj", [](Communicator& comm) { static_cast<void>(comm.gather_obj("text")); }},
      {"bcast", [](Communicator& comm) { comm.bcast(part, 1); }},
      {"allocate", [](Communicator& comm) { static_cast<void>(comm.allocate(100)); }},
      {"monitored_barrier", [](Communicator& comm) { comm.monitored_barrier(5ms); }},
  };
  for (const auto& [name, call] : calls) {
    const auto comm = create(2s);
    meet();
    if (!is_absent()) {
      EXPECT_THAT(error_of([&, &call = call] { call(*comm); }), HasSubstr(": " + last_ + " has not joined it")) << name;
    }
    meet();
  }
}

/// The comparison of debug mode, a call's first wait, has its time-out.
TEST_P(CallTimeouts, CoverDebugMode_from_2_ranks) {
  CommunicatorOptions options;
  options.device = Device();
  options.debug = true;
  options.timeout = testing::kCallTimeout;
  const auto comm = create_communicator(GetParam(), MPI_COMM_WORLD, options);
  if (!is_absent()) {
    EXPECT_THAT(error_of([&] { comm->barrier(); }), AllOf(HasSubstr("barrier, call 1"), names_the_last()));
  }
  meet();
}

/// The last rank waits in a different call, and answers so.
TEST_P(CallTimeoutsOfHierarchical, SayWhoIsInAnotherCall_from_2_ranks) {
  const auto comm = create(2s);
  static std::vector<float> values(3);
  if (is_absent()) {
    EXPECT_NE(error_of([&] { comm->bcast(values, 0); }), "");
  } else {
    EXPECT_THAT(error_of([&] { comm->allreduce(values, ReduceOp::kMax); }),
                AnyOf(HasSubstr(last_ + " gives bcast of 3 float32"), HasSubstr(" has given up: ")));
  }
  meet();
}

/// The last rank sees a question about an ended call, and answers from the next call.
TEST_P(CallTimeoutsOfFlat, DoNotNameACallThatHasEnded_from_2_ranks) {
  const auto comm = create(3s);
  static std::vector<float> values(3);
  if (is_absent()) {
    std::this_thread::sleep_for(1800ms);  // more than half of the time: then the others ask
    probes_find_nothing = true;
  }
  comm->barrier();
  probes_find_nothing = false;
  if (rank_ == 0) {
    std::this_thread::sleep_for(200ms);
    comm->send(values, size_ - 1);
  }
  if (is_absent()) comm->recv(values, 0);
  meet();
  if (!is_absent()) {
    EXPECT_THAT(error_of([&] { comm->monitored_barrier(testing::kCallTimeout); }),
                AllOf(names_the_last(), Not(HasSubstr("waits in"))));
  }
  meet();
}

TEST_P(CallTimeouts, CoverMessages_from_2_ranks) {
  const auto comm = create();
  static std::vector<float> large(3'000'000);  // waits for its receiver
  if (rank_ == 0) {
    EXPECT_THAT(error_of([&] { comm->recv(large, size_ - 1); }),
                AllOf(HasSubstr("recv"), HasSubstr(last_ + " has not made the call that matches it")));
  }
  if (rank_ == 0) {
    EXPECT_THAT(error_of([&] { comm->send(large, size_ - 1); }), HasSubstr("can only be destroyed"));
  }
  meet();
  const auto other = create();
  if (rank_ == 0) {
    Request request = other->irecv(large, size_ - 1);
    EXPECT_THAT(error_of([&] { request.wait(); }), HasSubstr(last_ + " has not made"));
  }
  meet();
}

/// Also if slices go through further ranks, as some networks need.
TEST_P(CallTimeoutsOfFlat, CoverEveryWayToReduce_from_3_ranks) {
  setenv("MN_NETWORK", "0.001,1000,1000", 1);
  const auto comm = create();
  static std::vector<float> values(50'000);
  {
    const CallTimeout enough(*comm, 60s);
    comm->allreduce(values);
  }
  unsetenv("MN_NETWORK");
  if (!is_absent()) {
    EXPECT_THAT(error_of([&] { comm->allreduce(values); }), AllOf(HasSubstr("call 2"), names_the_last()));
  }
  meet();
}

/// Ranks with different counts may wait for each other in different places of a call.
TEST_P(CallTimeouts, EndCallsOfDifferentCounts_from_2_ranks) {
  static std::vector<float> large(50'000);
  static std::vector<float> small(10);
  for (const bool last_has_more : {false, true}) {
    const auto comm = create();
    const std::string error = error_of([&] { comm->allreduce(is_absent() == last_has_more ? large : small); });
    if (is_absent() == last_has_more) {
      EXPECT_NE(error, "") << last_has_more;
    }
    meet();
  }
}

TEST_P(CallTimeouts, CoverGradientsReducedWhereTheyLie) {
  const auto comm = create(60s);
  const auto memory = comm->allocate(4000);
  const BufferView gradient(memory.get(), 1000, DType::kFloat32);
  const auto shared = comm->share({&gradient, 1});
  comm->set_timeout(testing::kCallTimeout);
  if (shared && !is_absent()) {
    EXPECT_THAT(error_of([&] { shared->reduce(1); }), AllOf(HasSubstr("allreduce_grad"), names_the_last()));
  }
  meet();
}

INSTANTIATE_TEST_SUITE_P(Backends, CallTimeouts, ::testing::ValuesIn(testing::kBackendsOnOneNode),
                         [](const auto& test) { return test.param; });
INSTANTIATE_TEST_SUITE_P(Backends, CallTimeoutsOfFlat, ::testing::Values("flat"));
INSTANTIATE_TEST_SUITE_P(Backends, CallTimeoutsOfHierarchical, ::testing::Values("hierarchical"));

}  // namespace
}  // namespace mn

// Collective calls in which the last rank gives a wrong count, dtype, op or root: an error that names the ranks, and no
// result.
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include <mn/comm/node/shared_reducer.hpp>

#include "tests/comm/backends.hpp"
#include "tests/comm/call_timeouts_fixture.hpp"

namespace mn {
namespace {

using namespace std::chrono_literals;
using ::testing::AllOf;
using ::testing::AnyOf;
using ::testing::HasSubstr;
using ::testing::Not;

constexpr auto kPatience = 2s;

class OtherCounts : public testing::CallTimeouts {
 protected:
  /// Buffers of calls that gave up must stay.
  static std::vector<float>& keep(std::size_t count) {
    static std::vector<std::unique_ptr<std::vector<float>>> kept;
    return *kept.emplace_back(std::make_unique<std::vector<float>>(count, 1.0F));
  }
  /// Every rank throws within the time-out; a comparing rank names the ranks and their arguments.
  template <class Call>
  void expect_named(const std::string& what, const Call& call) {
    const auto comm = create(kPatience);
    meet();
    const auto begin = std::chrono::steady_clock::now();
    const std::string error = error_of([&] { call(*comm); });
    EXPECT_THAT(error, AnyOf(HasSubstr(" gives "), HasSubstr("which expects"), HasSubstr("has given up"))) << what;
    EXPECT_LT(std::chrono::steady_clock::now() - begin, 4 * kPatience) << what;
    meet();
  }
};

TEST_P(OtherCounts, OfAllreduce_from_2_ranks) {
  constexpr std::pair<std::size_t, std::size_t> kCounts[] = {
      {10, 11},       {11, 10},         {1, 2000},         {10, 3000},        {3000, 10},
      {3000, 50'000}, {50'000, 49'999}, {50'000, 600'000}, {600'000, 50'000}, {1'000'000, 1'000'001}};
  for (const auto& [usual, last] : kCounts) {
    const std::string what = std::to_string(usual) + " and " + std::to_string(last);
    expect_named(what, [&](Communicator& comm) { comm.allreduce(keep(is_absent() ? last : usual)); });
  }
}

TEST_P(OtherCounts, OfMemoryThatAllShare_from_2_ranks) {
  expect_named("shared memory", [&](Communicator& comm) {
    static std::vector<std::shared_ptr<std::byte>> kept;
    const auto memory = kept.emplace_back(comm.allocate(is_absent() ? 8'000'000 : 80'000));
    comm.allreduce(BufferView(memory.get(), is_absent() ? 2'000'000 : 20'000, DType::kFloat32));
  });
  expect_named("share()", [&](Communicator& comm) {
    static std::vector<std::shared_ptr<std::byte>> kept;
    const auto memory = kept.emplace_back(comm.allocate(80'000));
    const BufferView buffer(memory.get(), is_absent() ? 20'000 : 10'000, DType::kFloat32);
    static std::vector<std::shared_ptr<SharedReducer>> reducers;
    reducers.push_back(comm.share({&buffer, 1}));
  });
}

TEST_P(OtherCounts, OrDtypesOrOps_from_2_ranks) {
  for (const std::size_t count : {2, 5000, 500'000}) {
    static std::vector<std::unique_ptr<std::vector<std::int32_t>>> integers;
    auto& integer = *integers.emplace_back(std::make_unique<std::vector<std::int32_t>>(count));
    expect_named("dtype", [&](Communicator& comm) {
      comm.allreduce(is_absent() ? BufferView(integer) : BufferView(keep(count)));
    });
    expect_named(
        "op", [&](Communicator& comm) { comm.allreduce(keep(count), is_absent() ? ReduceOp::kMax : ReduceOp::kSum); });
  }
}

TEST_P(OtherCounts, OfEveryCall_from_2_ranks) {
  const auto ranks = static_cast<std::size_t>(size_);
  for (const std::size_t usual : {20, 40'000}) {
    const std::size_t n = is_absent() ? usual + usual / 2 : usual;
    const std::vector<std::pair<std::string, std::function<void(Communicator&)>>> calls = {
        {"bcast", [&](Communicator& comm) { comm.bcast(keep(n)); }},
        {"bcast from the last", [&](Communicator& comm) { comm.bcast(keep(n), size_ - 1); }},
        {"roots", [&](Communicator& comm) { comm.bcast(keep(usual), is_absent() ? size_ - 1 : 0); }},
        {"gather", [&](Communicator& comm) { comm.gather(keep(n), keep(n * ranks)); }},
        {"scatter", [&](Communicator& comm) { comm.scatter(keep(n * ranks), keep(n)); }},
        {"allgather", [&](Communicator& comm) { comm.allgather(keep(n), keep(n * ranks)); }},
        {"alltoall", [&](Communicator& comm) { comm.alltoall(keep(n * ranks), keep(n * ranks)); }},
        {"reduce", [&](Communicator& comm) { comm.reduce(keep(n), keep(n)); }},
        {"reduce_scatter", [&](Communicator& comm) { comm.reduce_scatter(keep(n * ranks), keep(n)); }},
        {"allreduce_grad",
         [&](Communicator& comm) {
           const BufferView gradient = keep(n);
           comm.sum_gradients({&gradient, 1}, 0.5);
         }},
        {"scale",
         [&](Communicator& comm) {
           const BufferView gradient = keep(usual);
           comm.sum_gradients({&gradient, 1}, is_absent() ? 0.25 : 0.5);
         }},
        {"alltoallv",
         [&](Communicator& comm) {
           const std::vector<std::size_t> counts(ranks, n);
           comm.alltoallv(keep(n * ranks), counts, keep(n * ranks), counts);
         }},
        {"allgatherv",
         [&](Communicator& comm) {
           const std::vector<std::size_t> counts(ranks, n);
           comm.allgatherv(keep(n), keep(n * ranks), counts);
         }},
        {"gather_obj",
         [&](Communicator& comm) { static_cast<void>(comm.gather_obj("x", is_absent() ? size_ - 1 : 0)); }},
        {"a barrier less",
         [&](Communicator& comm) { is_absent() ? comm.reduce(keep(usual), keep(usual)) : comm.barrier(); }},
        {"a barrier more",
         [&](Communicator& comm) { is_absent() ? comm.monitored_barrier(kPatience) : comm.bcast(keep(usual)); }},
    };
    for (const auto& [name, call] : calls) expect_named(name, call);
  }
}

/// Two ranks see each other's call in any case; more ranks may wait forever without a time-out.
TEST_P(OtherCounts, NeedNoTimeoutBetweenTwo_on_2_ranks) {
  constexpr std::pair<std::size_t, std::size_t> kCounts[] = {{10, 11}, {50'000, 49'999}, {600'000, 50'000}};
  for (const auto& [usual, last] : kCounts) {
    const auto comm = create(0ms);
    const auto text = std::to_string(is_absent() ? usual : last) + " float32";
    EXPECT_THAT(error_of([&] { comm->allreduce(keep(is_absent() ? last : usual)); }),
                AllOf(HasSubstr("allreduce"), HasSubstr(" gives "), AnyOf(HasSubstr(text), HasSubstr("gives more"))));
    EXPECT_TRUE(comm->has_given_up());
    EXPECT_THAT(error_of([&] { comm->barrier(); }), HasSubstr("can only be destroyed"));
    meet();
  }
  const auto comm = create(0ms);
  EXPECT_THAT(
      error_of([&] { is_absent() ? comm->bcast(keep(3)) : comm->allgather(keep(3), keep(6)); }),
      AllOf(HasSubstr("bcast of 3 float32, root 0"), HasSubstr("allgather of 3 float32"), Not(HasSubstr("sum"))));
  meet();
}

INSTANTIATE_TEST_SUITE_P(Backends, OtherCounts, ::testing::ValuesIn(testing::kBackendsOnOneNode),
                         [](const auto& test) { return test.param; });

}  // namespace
}  // namespace mn

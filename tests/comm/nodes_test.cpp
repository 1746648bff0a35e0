// Backends over several nodes, made from one machine by MN_NODE_NAME: even, uneven and interleaved.
#include <cstdlib>
#include <cstring>
#include <random>

#include <gmock/gmock.h>

#include <mn/comm/communicator.hpp>
#include <mn/core/error.hpp>

#include "tests/comm/backends.hpp"
#include "tests/comm/count_limit.hpp"
#include "tests/comm/values.hpp"

namespace mn {
namespace {

using testing::filled;
using testing::pattern;

/// The node of each rank.
struct Layout {
  const char* name;
  int (*node_of)(int rank);
};
constexpr Layout kLayouts[] = {
    {"one", [](int) { return 0; }},
    {"block", [](int rank) { return rank / 2; }},
    {"cyclic", [](int rank) { return rank % 2; }},
    {"lonely_first", [](int rank) { return rank == 0 ? 0 : 1; }},
    {"three", [](int rank) { return rank % 3; }},
};

/// Puts each rank on a node of the given number; the destructor restores the environment.
class NodeName {
 public:
  explicit NodeName(int node) { setenv("MN_NODE_NAME", ("node" + std::to_string(node)).c_str(), 1); }
  ~NodeName() { unsetenv("MN_NODE_NAME"); }
  NodeName(const NodeName&) = delete;
  NodeName& operator=(const NodeName&) = delete;
};

int world_rank() {
  int rank = 0;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  return rank;
}

class Nodes : public ::testing::TestWithParam<std::tuple<std::string, Layout>> {
 protected:
  Nodes() : name_(std::get<1>(GetParam()).node_of(world_rank())), comm_(create()) {}

  static std::shared_ptr<Communicator> create() {
    CommunicatorOptions options;
    options.device = Device();
    return create_communicator(std::get<0>(GetParam()), MPI_COMM_WORLD, options);
  }
  template <class T>
  void expect_sum(Communicator& comm, std::span<T> values) {
    const auto mine = filled<T>(values.size(), [&](std::size_t i) { return pattern(comm.rank(), i); });
    std::copy(mine.begin(), mine.end(), values.begin());
    comm.allreduce(values);
    int wrong = 0;
    for (std::size_t i = 0; i < values.size(); ++i) {
      double sum = 0;
      for (int r = 0; r < comm.size(); ++r) sum += pattern(r, i);
      wrong += testing::number(values[i]) != sum;
    }
    EXPECT_EQ(wrong, 0) << values.size() << " elements";
  }

  NodeName name_;
  std::shared_ptr<Communicator> comm_;
};
class OneNode : public Nodes {};
class ByNetwork : public Nodes {};

TEST_P(Nodes, AreWhatTheirNamesSay) {
  const auto node_of = std::get<1>(GetParam()).node_of;
  const Topology& here = comm_->topology();
  int below = 0;
  int together = 0;
  for (int r = 0; r < comm_->size(); ++r) {
    const bool same = node_of(r) == node_of(comm_->rank());
    together += same;
    below += same && r < comm_->rank();
    EXPECT_EQ(here.nodes[static_cast<std::size_t>(r)] == comm_->inter_rank(), same);
  }
  EXPECT_EQ(comm_->intra_rank(), below);
  EXPECT_EQ(comm_->intra_size(), together);
}

TEST_P(Nodes, AllreduceOfEverySizeInAnyOrder) {
  testing::for_each_type([&]<class T>() {
    for (const std::size_t count : {1, 100'003, 7, 1027, 40'000, 0, 4097}) {
      std::vector<T> values(count);
      expect_sum<T>(*comm_, values);
    }
  });
}

TEST_P(Nodes, AllreduceInSharedMemory) {
  constexpr std::size_t kCount = 123'457;
  const auto memory = comm_->allocate(kCount * sizeof(float));
  const auto other = comm_->allocate(kCount * sizeof(float));
  const std::span all(reinterpret_cast<float*>(memory.get()), kCount);
  expect_sum<float>(*comm_, all);
  expect_sum<float>(*comm_, all.subspan(3, 100'000));
  // The result is equal if a rank's buffer lies in a different allocation, or at a different offset.
  const std::span moved(reinterpret_cast<float*>(other.get()), kCount);
  expect_sum<float>(*comm_, comm_->rank() == 0 ? moved.first(70'000) : all.last(70'000));
  std::vector<float> own(70'000);
  expect_sum<float>(*comm_, comm_->rank() == 0 ? std::span(own) : all.first(70'000));
}

TEST_P(Nodes, LargeCountsAreCut) {
  const CountLimit limit(1000);
  const auto limited = create();
  std::vector<float> values(10'007);
  expect_sum<float>(*limited, values);
}

TEST_P(Nodes, ScaledSumsAreTheSameForAllMessageSizesAndInSharedMemory) {
  constexpr std::size_t kCount = 100'000;
  std::mt19937 random(static_cast<unsigned>(comm_->rank() + 1));
  std::vector<float> original(kCount);
  for (float& x : original) x = std::ldexp(static_cast<float>(random() % 999) - 500, static_cast<int>(random() % 30));
  auto whole = original;
  comm_->sum_gradients(std::vector<BufferView>{whole}, 1.0 / 3);
  auto pieces = original;
  for (std::size_t first = 0, length = 1; first < kCount; first += length, length = length * 3 + 1) {
    comm_->sum_gradients(std::vector{BufferView(pieces).slice(first, std::min(length, kCount - first))}, 1.0 / 3);
  }
  EXPECT_EQ(std::memcmp(whole.data(), pieces.data(), kCount * sizeof(float)), 0);
  const auto memory = comm_->allocate(kCount * sizeof(float));
  std::memcpy(memory.get(), original.data(), kCount * sizeof(float));
  comm_->sum_gradients(std::vector<BufferView>{{memory.get(), kCount, DType::kFloat32}}, 1.0 / 3);
  EXPECT_EQ(std::memcmp(whole.data(), memory.get(), kCount * sizeof(float)), 0);
  auto theirs = whole;
  comm_->bcast(theirs);
  EXPECT_EQ(std::memcmp(whole.data(), theirs.data(), kCount * sizeof(float)), 0);
}

TEST_P(OneNode, BitsDoNotDependOnNumaDomains) {
  constexpr std::size_t kCount = 200'003;
  std::mt19937 random(static_cast<unsigned>(comm_->rank() + 1));
  std::vector<float> original(kCount);
  for (float& x : original) x = std::ldexp(static_cast<float>(random() % 999) - 500, static_cast<int>(random() % 30));
  auto expected = original;
  comm_->allreduce(expected);
  std::vector<Float16> original_halves(kCount);
  for (Float16& x : original_halves) x = to_float16(static_cast<float>(random() % 9999) / 777.0F);
  auto expected_halves = original_halves;
  comm_->allreduce(expected_halves);
  // One domain, a domain for each rank, pairs of ranks, uneven domains, and domains without neighbors.
  for (const auto domain_of :
       {+[](int) { return 0; }, +[](int rank) { return rank; }, +[](int rank) { return rank / 2; },
        +[](int rank) { return rank == 0 ? 1 : 0; }, +[](int rank) { return rank % 2; }}) {
    setenv("MN_NUMA_DOMAIN", std::to_string(domain_of(comm_->rank())).c_str(), 1);
    const auto comm = create();
    unsetenv("MN_NUMA_DOMAIN");
    const auto memory = comm->allocate(kCount * sizeof(float));
    const std::span values(reinterpret_cast<float*>(memory.get()), kCount);
    std::ranges::copy(original, values.begin());
    comm->allreduce(values);
    EXPECT_EQ(std::memcmp(values.data(), expected.data(), kCount * sizeof(float)), 0);
    const std::span halves(reinterpret_cast<Float16*>(memory.get()), kCount);
    std::ranges::copy(original_halves, halves.begin());
    comm->allreduce(halves);
    EXPECT_EQ(std::memcmp(halves.data(), expected_halves.data(), kCount * sizeof(Float16)), 0);
  }
}

TEST_P(ByNetwork, BitsDoNotDependOnWhatTheNetworkCosts_from_2_ranks) {
  constexpr std::size_t kCount = 100'000;
  std::mt19937 random(static_cast<unsigned>(comm_->rank() + 1));
  std::vector<float> original(kCount);
  for (float& x : original) x = std::ldexp(static_cast<float>(random() % 999) - 500, static_cast<int>(random() % 30));
  std::vector<float> expected;
  // Measured costs; few messages (slices by way of other ranks); many small pieces; one large piece.
  for (const char* network : {"", "0.001,1000,1000", "0.001,0.001,0.0001", "1,1000,1000"}) {
    setenv("MN_NETWORK", network, 1);
    const auto comm = create();
    for (const std::size_t count : {kCount, std::size_t{20'001}}) {
      auto values = original;
      comm->allreduce(std::span(values).first(count));
      if (expected.empty()) expected = values;
      EXPECT_EQ(std::memcmp(values.data(), expected.data(), count * sizeof(float)), 0) << network << ' ' << count;
    }
    unsetenv("MN_NETWORK");
  }
}

/// A node's sum of float16 may overflow although the result does not.
TEST_P(Nodes, SumsOfFloat16OverflowInTheirResultAlone) {
  constexpr std::size_t kCount = 30'000;
  const auto memory = comm_->allocate(kCount * sizeof(Float16));
  const std::span shared(reinterpret_cast<Float16*>(memory.get()), kCount);
  std::vector<Float16> own(kCount);
  for (const std::span values : {std::span(own).first(5), std::span(own), shared}) {
    const auto expect = [&](double expected) {
      int wrong = 0;
      for (const Float16 x : values) wrong += testing::number(x) != expected;
      EXPECT_EQ(wrong, 0) << values.size() << " elements, expected " << expected;
    };
    std::ranges::fill(values, to_float16(32'768));
    comm_->sum_gradients(std::vector<BufferView>{values}, 1.0 / comm_->size());
    expect(32'768);
    // Ranks of different nodes cancel each other.
    std::ranges::fill(values, to_float16(comm_->rank() % 2 == 0 ? 32'768.0F : -32'768.0F));
    comm_->allreduce(values);
    expect(comm_->size() % 2 == 0 ? 0 : 32'768);
  }
}

TEST_P(Nodes, SplitsAcrossAndWithinNodes) {
  const auto within = comm_->split(comm_->inter_rank(), comm_->rank());
  EXPECT_EQ(within->size(), comm_->intra_size());
  EXPECT_EQ(within->inter_size(), 1);
  std::vector<int> values(20'000, 1);
  within->allreduce(values);
  EXPECT_EQ(values.back(), comm_->intra_size());
}

std::string name_of(const ::testing::TestParamInfo<Nodes::ParamType>& test) {
  return std::get<0>(test.param) + "_" + std::get<1>(test.param).name;
}
const auto kBackends = ::testing::ValuesIn(testing::kBackendsOverNodes);
const std::span kSeveralNodes = std::span(kLayouts).subspan(1);
INSTANTIATE_TEST_SUITE_P(Layouts, Nodes, ::testing::Combine(kBackends, ::testing::ValuesIn(kLayouts)), name_of);
INSTANTIATE_TEST_SUITE_P(Layouts, OneNode, ::testing::Combine(kBackends, ::testing::Values(kLayouts[0])), name_of);
INSTANTIATE_TEST_SUITE_P(Layouts, ByNetwork,
                         ::testing::Combine(kBackends, ::testing::ValuesIn(kSeveralNodes.begin(), kSeveralNodes.end())),
                         name_of);
INSTANTIATE_TEST_SUITE_P(FlatOnOneNode, ByNetwork,
                         ::testing::Combine(::testing::Values("flat"), ::testing::Values(kLayouts[0])), name_of);

TEST(SingleNode, RefusesMoreThanOneNode) {
  const NodeName name(world_rank());
  const auto create = [] { static_cast<void>(create_communicator("single_node")); };
  if (create_communicator("naive")->size() == 1) return create();
  EXPECT_THAT(create, ::testing::ThrowsMessage<UsageError>(::testing::HasSubstr("take two_dimensional")));
}

TEST(Auto, PicksByNodes) {
  CommunicatorOptions options;
  options.device = Device();
  const auto picked = [&](int node) {
    const NodeName name(node);
    return create_communicator("auto", MPI_COMM_WORLD, options)->name();
  };
  const int rank = world_rank();
  const int ranks = create_communicator("naive")->size();
  EXPECT_EQ(picked(0), ranks == 1 ? "flat" : "hierarchical");
  EXPECT_EQ(picked(rank), "flat");
  if (ranks > 2) {
    EXPECT_EQ(picked(rank / 2), "two_dimensional");
  }
}

}  // namespace
}  // namespace mn

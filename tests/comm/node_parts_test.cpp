// Allgather and reduce_scatter of parts of all sizes, in private memory and in memory that the ranks of a node share.
#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdlib>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include <mn/comm/communicator.hpp>

namespace mn {
namespace {

/// Sums of these values depend on the order of the ranks.
float value(int rank, std::size_t i) {
  return std::ldexp(1.0F + static_cast<float>(i % 77), static_cast<int>((static_cast<std::size_t>(rank) * 7 + i) % 40));
}

/// Which ranks' buffers lie in shared memory.
enum class Memory { kPrivate, kShared, kMixed };

class NodeParts : public ::testing::TestWithParam<std::string> {
 protected:
  static constexpr float kUntouched = -1;
  static constexpr std::size_t kCounts[] = {1, 511, 512, 2049, 40'003, 300'007};

  [[nodiscard]] auto ranks() const { return static_cast<std::size_t>(comm_->size()); }
  [[nodiscard]] auto rank() const { return static_cast<std::size_t>(comm_->rank()); }
  /// Calls body(count, a, b) with two buffers of count × size() elements and a margin of untouched elements.
  template <class Body>
  void each(const Body& body) {
    for (const std::size_t count : kCounts) {
      for (const Memory memory : {Memory::kPrivate, Memory::kShared, Memory::kMixed}) {
        SCOPED_TRACE(std::to_string(count) + " elements, memory " + std::to_string(static_cast<int>(memory)));
        const std::size_t all = count * ranks() + 1;
        const auto shared = comm_->allocate(2 * all * sizeof(float));
        std::vector<float> own(2 * all);
        const bool uses_own = memory == Memory::kPrivate || (memory == Memory::kMixed && rank() == ranks() / 2);
        float* const data = uses_own ? own.data() : reinterpret_cast<float*>(shared.get());
        std::fill(data, data + 2 * all, kUntouched);
        body(count, std::span(data, all), std::span(data + all, all));
      }
    }
  }
  void expect_gathered(std::size_t count, std::span<const float> recv) {
    std::size_t wrong = 0;
    for (std::size_t i = 0; i < count * ranks(); ++i) wrong += recv[i] != value(static_cast<int>(i / count), i % count);
    EXPECT_EQ(wrong, 0U);
    EXPECT_EQ(recv.back(), kUntouched);
  }
  void expect_mean(std::size_t count, std::span<const float> part) {
    std::size_t wrong = 0;
    for (std::size_t i = 0; i < count; ++i) {
      float sum = value(0, rank() * count + i);
      for (int r = 1; r < comm_->size(); ++r) sum += value(r, rank() * count + i);
      wrong += part[i] != sum * (1.0F / static_cast<float>(ranks()));
    }
    EXPECT_EQ(wrong, 0U);
  }

  std::shared_ptr<Communicator> comm_ = create_communicator(GetParam(), MPI_COMM_WORLD, {.device = Device()});
};

TEST_P(NodeParts, AreGathered) {
  each([&](std::size_t count, std::span<float> send, std::span<float> recv) {
    for (std::size_t i = 0; i < count; ++i) send[i] = value(comm_->rank(), i);
    comm_->allgather(send.first(count), recv.first(count * ranks()));
    std::ranges::fill(send, kUntouched);  // no rank reads it any more
    expect_gathered(count, recv);
  });
}

TEST_P(NodeParts, AreGatheredInPlace) {
  each([&](std::size_t count, std::span<float> recv, std::span<float> /*other*/) {
    const auto own = recv.subspan(rank() * count, count);
    for (std::size_t i = 0; i < count; ++i) own[i] = value(comm_->rank(), i);
    comm_->allgather(own, recv.first(count * ranks()));
    expect_gathered(count, recv);
  });
}

TEST_P(NodeParts, AreReducedInTheOrderOfRanks) {
  each([&](std::size_t count, std::span<float> send, std::span<float> recv) {
    for (std::size_t i = 0; i < count * ranks(); ++i) send[i] = value(comm_->rank(), i);
    comm_->reduce_scatter(send.first(count * ranks()), recv.first(count), ReduceOp::kAverage);
    std::ranges::fill(send, kUntouched);
    expect_mean(count, recv);
    EXPECT_EQ(recv[count], kUntouched);
  });
}

TEST_P(NodeParts, AreReducedInPlace) {
  each([&](std::size_t count, std::span<float> send, std::span<float> /*other*/) {
    for (std::size_t i = 0; i < count * ranks(); ++i) send[i] = value(comm_->rank(), i);
    const auto own = send.subspan(rank() * count, count);
    comm_->reduce_scatter(send.first(count * ranks()), own, ReduceOp::kAverage);
    expect_mean(count, own);
  });
}

/// The second call must not write to memory that a slow rank still reads for the first call.
TEST_P(NodeParts, FollowOneAnotherInAnyOrder) {
  for (int round = 0; round < 4; ++round) {
    each([&](std::size_t count, std::span<float> send, std::span<float> recv) {
      if (count > 2049) return;
      for (std::size_t i = 0; i < count * ranks(); ++i) send[i] = value(comm_->rank(), i);
      comm_->reduce_scatter(send.first(count * ranks()), recv.first(count), ReduceOp::kAverage);
      expect_mean(count, recv);
      std::ranges::fill(recv, kUntouched);
      comm_->allgather(send.first(count), recv.first(count * ranks()));
      expect_gathered(count, recv);
      comm_->allreduce(send.first(count * ranks()));
    });
  }
}

TEST_P(NodeParts, OnSeveralNodes) {
  setenv("MN_NODE_NAME", std::to_string(comm_->rank() % 2).c_str(), 1);
  const auto nodes = create_communicator(GetParam(), MPI_COMM_WORLD, {.device = Device()});
  unsetenv("MN_NODE_NAME");
  comm_ = nodes;
  each([&](std::size_t count, std::span<float> send, std::span<float> recv) {
    for (std::size_t i = 0; i < count * ranks(); ++i) send[i] = value(comm_->rank(), i);
    comm_->reduce_scatter(send.first(count * ranks()), recv.first(count), ReduceOp::kAverage);
    expect_mean(count, recv);
    std::ranges::fill(recv, kUntouched);
    comm_->allgather(send.first(count), recv.first(count * ranks()));
    expect_gathered(count, recv);
  });
}

INSTANTIATE_TEST_SUITE_P(Backends, NodeParts, ::testing::Values("flat", "hierarchical", "two_dimensional"),
                         [](const auto& test) { return test.param; });

}  // namespace
}  // namespace mn

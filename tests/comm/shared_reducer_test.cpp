// Gradients of a node, reduced piece by piece by any idle rank.
#include <chrono>
#include <cstring>
#include <functional>
#include <thread>

#include <mn/comm/communicator.hpp>
#include <mn/comm/node/shared_reducer.hpp>

#include "tests/comm/values.hpp"

namespace mn {
namespace {

using testing::pattern;

std::shared_ptr<Communicator> create(const std::string& name) {
  return create_communicator(name, MPI_COMM_WORLD, {.device = Device{}});
}

/// True once `condition` holds; false if it does not within ten seconds.
bool comes_true(const std::function<bool()>& condition) {
  const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(10);
  while (!condition()) {
    if (std::chrono::steady_clock::now() > end) return false;
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  return true;
}

/// Buffers of several types and lengths in one piece of shared memory.
class SharedReducerTest : public ::testing::Test {
 protected:
  SharedReducerTest() {
    constexpr std::size_t kFloats[] = {3, 0, 40001, 64 * 1024};
    std::size_t at = 0;
    const auto add = [&](std::size_t count, DType dtype) {
      buffers_.emplace_back(memory_.get() + at, count, dtype);
      at = (at + buffers_.back().bytes() + 7) / 8 * 8;
    };
    for (const std::size_t count : kFloats) add(count, DType::kFloat32);
    add(777, DType::kFloat64);
    add(50001, DType::kBFloat16);
    reducer_ = comm_->share(buffers_);
  }

  /// Fills a buffer with the values of `rank` in a round.
  void fill(std::size_t buffer, int round) {
    const BufferView& view = buffers_[buffer];
    const auto value = [&](std::size_t i) { return pattern(comm_->rank() + 3 * round, i) / 3.0; };
    for (std::size_t i = 0; i < view.count; ++i) {
      if (view.dtype == DType::kFloat32) static_cast<float*>(view.data)[i] = static_cast<float>(value(i));
      if (view.dtype == DType::kFloat64) static_cast<double*>(view.data)[i] = value(i);
      if (view.dtype == DType::kBFloat16) {
        static_cast<BFloat16*>(view.data)[i] = to_bfloat16(static_cast<float>(value(i)));
      }
    }
  }
  /// allreduce_grad's result for equal values.
  [[nodiscard]] std::vector<std::vector<std::byte>> expected(int round) {
    std::vector<std::vector<std::byte>> copies;
    std::vector<BufferView> views;
    for (std::size_t b = 0; b < buffers_.size(); ++b) {
      fill(b, round);
      const auto* data = static_cast<const std::byte*>(buffers_[b].data);
      copies.emplace_back(data, data + buffers_[b].bytes());
    }
    for (std::size_t b = 0; b < buffers_.size(); ++b) {
      views.emplace_back(copies[b].data(), buffers_[b].count, buffers_[b].dtype);
    }
    comm_->sum_gradients(views, 0.25);
    return copies;
  }
  [[nodiscard]] bool holds(std::size_t buffer, const std::vector<std::byte>& values) const {
    return values.empty() || std::memcmp(buffers_[buffer].data, values.data(), values.size()) == 0;
  }
  void expect_all(const std::vector<std::vector<std::byte>>& values) {
    for (std::size_t b = 0; b < buffers_.size(); ++b) EXPECT_TRUE(holds(b, values[b])) << "buffer " << b;
  }

  std::shared_ptr<Communicator> comm_ = create("hierarchical");
  std::shared_ptr<std::byte> memory_ = comm_->allocate(1 << 20);
  std::vector<BufferView> buffers_;
  std::unique_ptr<SharedReducer> reducer_;
};

TEST_F(SharedReducerTest, IsThatOfAllreduceGradToTheBit_from_2_ranks) {
  for (int round = 0; round < 20; ++round) {
    const auto values = expected(round);
    if (round % 3 == comm_->rank()) std::this_thread::sleep_for(std::chrono::milliseconds(5));
    for (std::size_t b = 0; b < buffers_.size(); ++b) {
      if ((round + comm_->rank()) % 2 == 0) reducer_->publish(b);
    }
    reducer_->reduce(0.25);
    expect_all(values);
    comm_->barrier();
  }
}

/// Rank 0 enters reduce() only after the remaining ranks have reduced exactly the pieces that rank 0 published.
TEST_F(SharedReducerTest, RanksThatWaitTakeWhatOthersPublished_from_2_ranks) {
  for (int round = 0; round < 3; ++round) {
    const auto values = expected(round);
    const auto* const own = static_cast<const std::byte*>(buffers_[3].data);
    const std::vector<std::byte> before(own, own + buffers_[3].bytes());
    comm_->barrier();
    if (comm_->rank() == 0) {
      reducer_->publish(3);
      EXPECT_TRUE(comes_true([&] { return holds(0, values[0]) && holds(2, values[2]); }));
      std::this_thread::sleep_for(std::chrono::milliseconds(10));
      EXPECT_TRUE(holds(3, before));
    }
    reducer_->reduce(0.25);
    expect_all(values);
    comm_->barrier();
  }
}

TEST_F(SharedReducerTest, IsThereWhereAllRanksShareTheMemory) {
  EXPECT_EQ(reducer_ != nullptr, comm_->size() > 1);
  std::vector<float> own(buffers_.front().count);
  const std::vector<BufferView> elsewhere{own};
  EXPECT_EQ(comm_->share(comm_->rank() == 0 ? std::span(elsewhere) : std::span(buffers_).first(1)), nullptr);
  EXPECT_EQ(comm_->share(std::span<const BufferView>()), nullptr);
  for (const char* name : {"naive", "flat", "dummy"}) {
    const auto other = create(name);
    const auto memory = other->allocate(100);
    EXPECT_EQ(other->share(std::vector<BufferView>{{memory.get(), 10, DType::kFloat32}}), nullptr) << name;
  }
}

TEST_F(SharedReducerTest, ComesAndGoesOften) {
  for (int i = 0; i < 200; ++i) {
    const auto again = comm_->share(buffers_);
    if (again) again->reduce(1);
  }
}

}  // namespace
}  // namespace mn

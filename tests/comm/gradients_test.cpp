// allreduce_grad: means, mixed types, flat and scattered buffers, and bits that depend on the values alone.
#include <cstring>
#include <random>

#include <mn/comm/communicator.hpp>
#include <mn/core/error.hpp>

#include "tests/comm/backends.hpp"
#include "tests/comm/values.hpp"

namespace mn {
namespace {

using testing::filled;
using testing::pattern;

class Gradients : public ::testing::TestWithParam<std::string> {
 protected:
  Gradients() {
    CommunicatorOptions options;
    options.device = Device();
    comm_ = create_communicator(GetParam(), MPI_COMM_WORLD, options);
  }
  /// dummy exchanges no data: each rank's "sum" is its own.
  [[nodiscard]] bool exchanges() const { return comm_->name() != "dummy"; }
  /// Twice the mean, which is exact: the sum times 2 / size is checked for powers of two alone.
  [[nodiscard]] double expected_sum(std::size_t i) const {
    double sum = 0;
    for (int r = 0; r < comm_->size(); ++r) sum += pattern(r, i);
    return exchanges() ? sum : pattern(comm_->rank(), i);
  }
  template <class T>
  std::vector<T> mine(std::size_t count) {
    return filled<T>(count, [&](std::size_t i) { return pattern(comm_->rank(), i); });
  }

  std::shared_ptr<Communicator> comm_;
};

TEST_P(Gradients, ViewsOfOneFlatBuffer) {
  auto flat = mine<float>(5001);
  const BufferView whole(flat);
  const std::vector<BufferView> views{whole.slice(0, 1), whole.slice(1, 3000), whole.slice(3001, 0),
                                      whole.slice(3001, 2000)};
  comm_->sum_gradients(views, 0.5);
  int wrong = 0;
  for (std::size_t i = 0; i < flat.size(); ++i) wrong += flat[i] != (exchanges() ? 0.5 : 1) * expected_sum(i);
  EXPECT_EQ(wrong, 0);
}

TEST_P(Gradients, ScatteredAndOfSeveralTypes) {
  auto a = mine<float>(1027);
  auto b = mine<Float16>(7);
  auto c = mine<float>(33);
  auto d = mine<BFloat16>(515);
  auto e = mine<double>(3);
  comm_->sum_gradients(std::vector<BufferView>{a, b, c, d, e}, 1.0);
  const auto check = [&](const auto& gradient) {
    int wrong = 0;
    for (std::size_t i = 0; i < gradient.size(); ++i) wrong += testing::number(gradient[i]) != expected_sum(i);
    EXPECT_EQ(wrong, 0);
  };
  check(a);
  check(b);
  check(c);
  check(d);
  check(e);
}

TEST_P(Gradients, InMemoryFromAllocate) {
  constexpr std::size_t kCount = 70'001;
  const auto memory = comm_->allocate(kCount * sizeof(float));
  auto* values = reinterpret_cast<float*>(memory.get());
  EXPECT_EQ(reinterpret_cast<std::uintptr_t>(values) % 64, 0U);
  EXPECT_TRUE(std::all_of(values, values + kCount, [](float x) { return x == 0; }));
  for (int round = 0; round < 3; ++round) {
    const auto data = mine<float>(kCount);
    std::copy(data.begin(), data.end(), values);
    comm_->sum_gradients(std::vector<BufferView>{{values, kCount, DType::kFloat32}}, 1.0);
    int wrong = 0;
    for (std::size_t i = 0; i < kCount; ++i) wrong += values[i] != expected_sum(i);
    EXPECT_EQ(wrong, 0) << "round " << round;
  }
}

TEST_P(Gradients, NoneAtAll) {
  comm_->sum_gradients(std::span<const BufferView>(), 1.0);
  comm_->sum_gradients(std::vector<BufferView>{BufferView(nullptr, 0, DType::kFloat32)}, 1.0);
}

/// Values whose sum depends on the order: of very different size, both signs.
std::vector<float> rough(std::size_t count, int rank) {
  std::mt19937 random(static_cast<unsigned>(rank + 1));
  std::vector<float> values(count);
  for (float& x : values) {
    x = std::ldexp(static_cast<float>(random() % 2000) - 1000.0F, static_cast<int>(random() % 40) - 20);
  }
  return values;
}

TEST_P(Gradients, EqualBitsOnAllRanksAndForAllMessageSizes) {
  constexpr std::size_t kCount = 300'000;
  const auto original = rough(kCount, comm_->rank());
  auto whole = original;
  comm_->allreduce(whole);
  auto pieces = original;
  for (std::size_t first = 0, length = 1; first < kCount; first += length, length = length * 3 + 1) {
    comm_->allreduce(BufferView(pieces).slice(first, std::min(length, kCount - first)));
  }
  EXPECT_EQ(std::memcmp(whole.data(), pieces.data(), kCount * sizeof(float)), 0);
  auto theirs = whole;
  comm_->bcast(theirs);
  EXPECT_EQ(std::memcmp(whole.data(), theirs.data(), kCount * sizeof(float)), 0);
}

TEST_P(Gradients, IntegersAreRefused) {
  std::vector<int> integers{1};
  EXPECT_THROW(comm_->sum_gradients(std::vector<BufferView>{integers}, 0.5), ArgumentError);
}

INSTANTIATE_TEST_SUITE_P(Backends, Gradients, ::testing::ValuesIn(testing::kGradientBackends),
                         [](const auto& test) { return test.param; });

}  // namespace
}  // namespace mn

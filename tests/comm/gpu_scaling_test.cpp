// Means of gradients on GPUs: as exact as their dtype allows, whatever the layout in memory.
#include <cmath>
#include <random>

#include "tests/comm/gpu_fixture.hpp"

namespace mn {
namespace {

using testing::number;
using testing::numbers;
using testing::OnDevice;
using testing::OnGpu;
using testing::two_pieces;

template <class T>
T rounded(double value) {
  if constexpr (std::is_same_v<T, Float16>)
    return to_float16(static_cast<float>(value));
  else if constexpr (std::is_same_v<T, BFloat16>)
    return to_bfloat16(static_cast<float>(value));
  else
    return static_cast<T>(value);
}

class GradientMeans : public OnGpu, public ::testing::WithParamInterface<const char*> {
 protected:
  GradientMeans() { pretend_nodes(std::string(GetParam()) == "pure_nccl" ? 1 : 2); }

  /// The mean over ranks of the ranks' values.
  template <class T>
  std::vector<double> mean(const std::vector<T>& own, bool in_order, std::optional<DType> wire = {}) const {
    const auto comm = shared(GetParam(), wire);
    const OnDevice<T> gradient(own, device_);
    comm->sum_gradients(two_pieces(gradient.view(), in_order), 1.0 / size_);
    return numbers(gradient.get());
  }

  /// On average over many elements, the relative error of the mean is far less than a rounding of 1/n would make it.
  template <class T>
  void expect_no_bias(double bound) const {
    constexpr std::size_t kCount = 20'000;
    std::vector<double> exact(kCount, 0.0);
    std::vector<T> own;
    for (int r = 0; r < size_; ++r) {
      std::mt19937 random(static_cast<unsigned>(r + 1));
      for (double& sum : exact) {
        const T value = rounded<T>(0.5 + static_cast<double>(random() % 65'536) / 65'536);
        sum += number(value) / size_;
        if (r == rank_) own.push_back(value);
      }
    }
    for (const bool in_order : {true, false}) {
      const auto found = mean(own, in_order);
      double bias = 0;
      for (std::size_t i = 0; i < kCount; ++i) bias += (found[i] / exact[i] - 1) / kCount;
      EXPECT_LT(std::abs(bias), bound) << name_of(dtype_of<T>()) << (in_order ? " in order" : " packed");
    }
  }
};

TEST_P(GradientMeans, AreNotBiased) {
  expect_no_bias<BFloat16>(2e-4);
  expect_no_bias<Float16>(3e-5);
  expect_no_bias<float>(1e-7);
}

TEST_P(GradientMeans, OfHalvesWhoseSumIsNoHalf) {
  for (const double value : {40'000.0, 0x1p-24}) {
    const std::vector<Float16> own(1001, rounded<Float16>(value));
    for (const bool in_order : {true, false}) {
      EXPECT_EQ(mean(own, in_order), std::vector<double>(1001, value)) << in_order;
    }
  }
}

TEST_P(GradientMeans, DoNotOverflowOnTheWay) {
  const std::vector<float> own(1001, 40'000.0F);
  for (const bool in_order : {true, false}) {
    for (const double found : mean(own, in_order, DType::kFloat16)) ASSERT_NEAR(found, 40'000.0, 64.0);
    for (const double found : mean(own, in_order, DType::kBFloat16)) ASSERT_NEAR(found, 40'000.0, 512.0);
  }
}

/// Gradients are contiguous on some ranks only; their sizes are not multiples of 16 bytes.
TEST_P(GradientMeans, DoNotDependOnTheLayoutOfOtherRanks) {
  const auto check = [&]<class T>() {
    const auto gradient = mine<T>(1001);
    auto pieces = two_pieces(gradient.view(), true);
    const OnDevice<T> elsewhere(gradient.get(), device_);
    if (rank_ % 2 == 1) pieces[0] = elsewhere.view().slice(0, pieces[0].count);
    shared(GetParam())->sum_gradients(pieces, 0.5);
    const auto first = numbers((rank_ % 2 == 1 ? elsewhere : gradient).get());
    const auto second = numbers(gradient.get());
    int wrong = 0;
    for (std::size_t i = 0; i < 1001; ++i) wrong += (i < pieces[0].count ? first : second)[i] != 0.5 * sum_at(i);
    EXPECT_EQ(wrong, 0) << name_of(dtype_of<T>());
  };
  check.template operator()<float>();
  check.template operator()<double>();
  check.template operator()<BFloat16>();
  check.template operator()<Float16>();
}

INSTANTIATE_TEST_SUITE_P(Backends, GradientMeans, ::testing::Values("pure_nccl", "hierarchical", "two_dimensional"),
                         [](const auto& test) { return std::string(test.param); });

}  // namespace
}  // namespace mn

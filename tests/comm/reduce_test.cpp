// The kernels under the communicators: 16-bit floats bit by bit, every type and operation, order, aliasing.
#include <array>
#include <bit>
#include <cmath>
#include <limits>

#include <mn/comm/mpi/reduce.hpp>
#include <mn/core/half_conversion.hpp>

#include "tests/comm/values.hpp"

namespace mn {
namespace {

using testing::element;
using testing::filled;
using testing::numbers;

TEST(Half, EveryFloat16SurvivesTheWayToFloatAndBack) {
  int wrong = 0;
  for (std::uint32_t bits = 0; bits < 0x10000; ++bits) {
    const Float16 value{static_cast<std::uint16_t>(bits)};
    const bool is_nan = (bits & 0x7fffU) > 0x7c00U;
    const float wide = to_float(value);
    wrong += is_nan ? !std::isnan(wide) || !std::isnan(to_float(to_float16(wide))) : to_float16(wide).bits != bits;
  }
  EXPECT_EQ(wrong, 0);
}

/// Every half and its neighboring floats, NaNs too, in runs of odd lengths for vectors.
TEST(Half, CpusConvertToTheSameBits) {
  std::vector<Float16> halves;
  std::vector<float> floats;
  for (std::uint32_t bits = 0; bits < 0x10000; ++bits) {
    halves.push_back({static_cast<std::uint16_t>(bits)});
    const auto wide = std::bit_cast<std::uint32_t>(to_float(halves.back()));
    for (const std::uint32_t more : {0U, 1U, 0x0fffU, 0x1000U, 0x1001U, 0x1fffU}) {
      floats.push_back(std::bit_cast<float>(wide + more));
    }
  }
  for (std::uint32_t bits = 0; bits < 0xffffffffU - 65537; bits += 65537) floats.push_back(std::bit_cast<float>(bits));
  std::vector<float> widened(halves.size());
  std::vector<Float16> narrowed(floats.size());
  for (const HalfConversion& each : half_conversions()) {
    for (std::size_t first = 0, length = 1; first < halves.size(); first += length++) {
      each.widen(widened.data() + first, halves.data() + first, std::min(length, halves.size() - first));
    }
    for (std::size_t first = 0, length = 1; first < floats.size(); first += length++) {
      each.narrow(narrowed.data() + first, floats.data() + first, std::min(length, floats.size() - first));
    }
    int wrong = 0;
    for (std::size_t i = 0; i < halves.size(); ++i) {
      wrong += std::bit_cast<std::uint32_t>(widened[i]) != std::bit_cast<std::uint32_t>(to_float(halves[i]));
    }
    for (std::size_t i = 0; i < floats.size(); ++i) wrong += narrowed[i].bits != to_float16(floats[i]).bits;
    EXPECT_EQ(wrong, 0) << each.name;
  }
}

TEST(Half, KnownFloat16Values) {
  EXPECT_EQ(to_float(Float16{0x3c00}), 1.0F);
  EXPECT_EQ(to_float(Float16{0xc000}), -2.0F);
  EXPECT_EQ(to_float(Float16{0x7bff}), 65504.0F);
  EXPECT_EQ(to_float(Float16{0x0001}), 0x1p-24F);
  EXPECT_EQ(to_float(Float16{0x0400}), 0x1p-14F);
  EXPECT_EQ(to_float(Float16{0x7c00}), std::numeric_limits<float>::infinity());
}

TEST(Half, Float16RoundsToNearestEvenAndOverflowsToInfinity) {
  EXPECT_EQ(to_float16(1.0F + 0x1p-11F).bits, 0x3c00);      // a tie: to even
  EXPECT_EQ(to_float16(1.0F + 3 * 0x1p-11F).bits, 0x3c02);  // a tie: to even, upwards
  EXPECT_EQ(to_float16(1.0F + 0x1p-11F + 0x1p-20F).bits, 0x3c01);
  EXPECT_EQ(to_float16(65519.0F).bits, 0x7bff);
  EXPECT_EQ(to_float16(65520.0F).bits, 0x7c00);
  EXPECT_EQ(to_float16(-1e30F).bits, 0xfc00);
  EXPECT_EQ(to_float16(0x1p-25F).bits, 0x0000);  // half of the least: a tie, to even
  EXPECT_EQ(to_float16(3 * 0x1p-25F).bits, 0x0002);
  EXPECT_EQ(to_float16(-0.0F).bits, 0x8000);
}

TEST(Half, EveryBFloat16SurvivesAndRoundsToNearestEven) {
  int wrong = 0;
  for (std::uint32_t bits = 0; bits < 0x10000; ++bits) {
    const BFloat16 value{static_cast<std::uint16_t>(bits)};
    const float wide = to_float(value);
    wrong += std::isnan(wide) ? !std::isnan(to_float(to_bfloat16(wide))) : to_bfloat16(wide).bits != bits;
  }
  EXPECT_EQ(wrong, 0);
  EXPECT_EQ(to_bfloat16(1.0F + 0x1p-8F).bits, 0x3f80);
  EXPECT_EQ(to_bfloat16(1.0F + 3 * 0x1p-8F).bits, 0x3f82);
  EXPECT_EQ(to_bfloat16(std::numeric_limits<float>::max()).bits, 0x7f80);
}

template <class T>
std::vector<double> reduced(const std::vector<std::vector<T>>& inputs, const Reduction& reduction) {
  std::vector<T> out(inputs.front().size());
  std::vector<const void*> pointers;
  for (const auto& input : inputs) pointers.push_back(input.data());
  std::array<void*, 1> outputs{out.data()};
  reduce_in_order(outputs, pointers, out.size(), reduction);
  return numbers(out);
}

TEST(Reduce, EveryTypeOperationSizeAndNumberOfInputs) {
  testing::for_each_type([]<class T>() {
    for (const std::size_t count : {0, 1, 7, 1027, 4096, 5001}) {
      for (int inputs = 1; inputs <= 5; ++inputs) {
        std::vector<std::vector<T>> data;
        std::vector<double> sum(count, 0);
        std::vector<double> prod(count, 1);
        std::vector<double> low(count, 100);
        std::vector<double> high(count, -1);
        for (int r = 0; r < inputs; ++r) {
          data.push_back(filled<T>(count, [&](std::size_t i) { return testing::pattern(r, i) % 4; }));
          for (std::size_t i = 0; i < count; ++i) {
            const double x = testing::number(data.back()[i]);
            sum[i] += x;
            prod[i] *= x;
            low[i] = std::min(low[i], x);
            high[i] = std::max(high[i], x);
          }
        }
        if constexpr (sizeof(T) > 1) {
          EXPECT_EQ(reduced(data, {dtype_of<T>(), ReduceOp::kProd}), prod);
        }
        EXPECT_EQ(reduced(data, {dtype_of<T>(), ReduceOp::kSum}), sum);
        EXPECT_EQ(reduced(data, {dtype_of<T>(), ReduceOp::kMin}), low);
        EXPECT_EQ(reduced(data, {dtype_of<T>(), ReduceOp::kMax}), high);
      }
    }
  });
}

TEST(Reduce, SumsFromLeftToRight) {
  // (1 + 2^24) loses the 1 in float32: the result depends on the order of inputs.
  const std::vector<std::vector<float>> lost{{1}, {0x1p24F}, {-0x1p24F}};
  const std::vector<std::vector<float>> kept{{0x1p24F}, {-0x1p24F}, {1}};
  EXPECT_EQ(reduced(lost, {}), std::vector<double>{0});
  EXPECT_EQ(reduced(kept, {}), std::vector<double>{1});
}

TEST(Reduce, SixteenBitFloatsAreRoundedOnce) {
  // 2048 + 1 + 1: in float16 each step would round back to 2048.
  const std::vector<std::vector<Float16>> data{{element<Float16>(2048)}, {element<Float16>(1)}, {element<Float16>(1)}};
  EXPECT_EQ(reduced(data, {DType::kFloat16}), std::vector<double>{2050});
}

TEST(Reduce, IntegersWrap) {
  const std::vector<std::vector<std::int32_t>> data{{std::numeric_limits<std::int32_t>::max()}, {1}};
  EXPECT_EQ(reduced(data, {DType::kInt32}), std::vector<double>{-0x1p31});
}

template <class T>
void expect_nans_in_extremes() {
  constexpr std::size_t kCount = 1031;
  const T nan = testing::element_of<T>(std::numeric_limits<float>::quiet_NaN());
  const T infinity = testing::element_of<T>(-std::numeric_limits<float>::infinity());
  for (std::size_t inputs = 1; inputs <= 4; ++inputs) {
    // Element i is NaN in input i % (inputs + 1), and nowhere for the last remainder.
    std::vector<std::vector<T>> data;
    for (std::size_t r = 0; r < inputs; ++r) {
      data.push_back(filled<T>(kCount, [&](std::size_t i) { return testing::pattern(static_cast<int>(r), i); }));
      for (std::size_t i = 0; i < kCount; ++i) {
        if (i % (inputs + 1) == r) data[r][i] = nan;
        if (i % 3 == r) data[r][i] = i % (inputs + 1) == r ? nan : infinity;
      }
    }
    for (const ReduceOp op : {ReduceOp::kMin, ReduceOp::kMax}) {
      const auto values = reduced(data, {dtype_of<T>(), op});
      int wrong = 0;
      for (std::size_t i = 0; i < kCount; ++i) wrong += std::isnan(values[i]) != (i % (inputs + 1) < inputs);
      EXPECT_EQ(wrong, 0) << name_of(dtype_of<T>()) << ", " << name_of(op) << " of " << inputs;
    }
  }
}

TEST(Reduce, TheMinimumAndMaximumOfANanAreNan) {
  expect_nans_in_extremes<Float16>();
  expect_nans_in_extremes<BFloat16>();
  expect_nans_in_extremes<float>();
  expect_nans_in_extremes<double>();
}

TEST(Reduce, ScalesFloats) {
  const std::vector<std::vector<float>> data{{1, 2, 3}, {3, 2, 1}};
  EXPECT_EQ(reduced(data, {DType::kFloat32, ReduceOp::kSum, 0.5}), (std::vector<double>{2, 2, 2}));
}

TEST(Reduce, WritesToEveryOutputAlsoToItsInputs) {
  auto a = filled<float>(3001, [](std::size_t i) { return testing::pattern(0, i); });
  auto b = filled<float>(3001, [](std::size_t i) { return testing::pattern(1, i); });
  std::vector<double> sum;
  for (std::size_t i = 0; i < a.size(); ++i) sum.push_back(a[i] + b[i]);
  std::array<void*, 2> outputs{a.data(), b.data()};
  std::array<const void*, 2> inputs{a.data(), b.data()};
  reduce_in_order(outputs, inputs, a.size(), {});
  EXPECT_EQ(numbers(a), sum);
  EXPECT_EQ(numbers(b), sum);
}

}  // namespace
}  // namespace mn

// The kernels that pack and sum gradients, run here thread after thread.
#include <cmath>
#include <cstring>
#include <limits>
#include <numeric>
#include <random>

#include <mn/comm/device/ordered_sum.hpp>
#include <mn/comm/device/pack.hpp>
#include <mn/comm/mpi/reduce.hpp>

#include "tests/comm/values.hpp"

namespace mn {
namespace {

using testing::element;
using testing::number;

template <class From, class To>
void run_kernel(std::span<const PackPiece> pieces, double scale, unsigned blocks = 3, unsigned threads = 32) {
  const PackTable table = make_pack_table(pieces);
  for (unsigned block = 0; block < blocks; ++block) {
    for (unsigned thread = 0; thread < threads; ++thread) {
      pack_thread<From, To>(table, static_cast<PackMath<From, To>>(scale), block, blocks, thread, threads);
    }
  }
}

/// Adjacent tensors with a guard element between, each starting `shift` elements past an aligned address.
template <class T>
struct Tensors {
  Tensors(const std::vector<std::size_t>& counts, std::size_t shift) : memory(std::size_t{1} << 16) {
    std::size_t next = shift;
    for (const std::size_t count : counts) {
      begins.push_back(memory.data() + next);
      next += (count + 1 + 15) / 16 * 16;
    }
  }
  std::vector<T> memory;
  std::vector<T*> begins;
};

/// 16 elements are 16-byte aligned in every type, and vectors' memory is.
const std::vector<std::size_t> kCounts = {1, 7, 8, 4096, 4097, 33, 12289, 2};

template <class From, class To>
void expect_exact(std::size_t shift) {
  SCOPED_TRACE(std::string(name_of(dtype_of<From>())) + " to " + std::string(name_of(dtype_of<To>())) +
               ", shifted by " + std::to_string(shift));
  Tensors<From> from(kCounts, shift);
  Tensors<To> to(kCounts, shift);
  const To guard = element<To>(-77);
  std::fill(to.memory.begin(), to.memory.end(), guard);
  std::vector<PackPiece> pieces;
  for (std::size_t p = 0; p < kCounts.size(); ++p) {
    for (std::size_t i = 0; i < kCounts[p]; ++i)
      from.begins[p][i] = element<From>(testing::pattern(static_cast<int>(p), i));
    pieces.push_back({from.begins[p], to.begins[p], kCounts[p]});
  }
  run_kernel<From, To>(pieces, 0.5);
  int wrong = 0;
  for (std::size_t p = 0; p < kCounts.size(); ++p) {
    for (std::size_t i = 0; i < kCounts[p]; ++i) {
      wrong += number(to.begins[p][i]) != 0.5 * testing::pattern(static_cast<int>(p), i);
    }
    wrong += number(to.begins[p][kCounts[p]]) != -77;
  }
  EXPECT_EQ(wrong, 0);
}

TEST(Pack, EveryPairOfTypesAlignedAndNot) {
  const auto from_type = [&]<class From>() {
    for (const std::size_t shift : {std::size_t{0}, std::size_t{1}}) {
      expect_exact<From, Float16>(shift);
      expect_exact<From, BFloat16>(shift);
      expect_exact<From, float>(shift);
      expect_exact<From, double>(shift);
    }
  };
  from_type.operator()<Float16>();
  from_type.operator()<BFloat16>();
  from_type.operator()<float>();
  from_type.operator()<double>();
}

TEST(Pack, AsManyPiecesAsOneKernelTakes) {
  std::vector<float> from(kPackPieces * 3);
  std::iota(from.begin(), from.end(), 0.0F);
  std::vector<float> to(from.size(), -1);
  std::vector<PackPiece> pieces;
  for (std::size_t p = 0; p < kPackPieces; ++p) pieces.push_back({&from[p * 3], &to[p * 3], 3});
  run_kernel<float, float>(pieces, 1.0);
  EXPECT_EQ(from, to);
}

TEST(Pack, MoreBlocksThanChunksAndFewer) {
  std::vector<float> from(10 * kPackChunk + 5, 2.0F);
  for (const unsigned blocks : {1U, 4U, 64U}) {
    std::vector<float> to(from.size(), 0.0F);
    const PackPiece piece{from.data(), to.data(), from.size()};
    run_kernel<float, float>(std::span(&piece, 1), 3.0, blocks, 7);
    EXPECT_EQ(to, std::vector<float>(from.size(), 6.0F)) << blocks << " blocks";
  }
}

/// The compiler's own 16-bit float rounds as IEEE 754 says.
TEST(Pack, RoundsToNearestEvenOnce) {
  std::mt19937 random(7);
  int wrong = 0;
  for (int i = 0; i < 200'000; ++i) {
    const auto bits = static_cast<std::uint32_t>(random());
    const auto value = std::bit_cast<float>(bits);
    if (std::isnan(value)) continue;
    const float scaled = value * 0.3F;
    const auto half = static_cast<_Float16>(scaled);
    wrong += pack_element<float, Float16>(value, 0.3F).bits != std::bit_cast<std::uint16_t>(half);
    const double brain = to_float(pack_element<float, BFloat16>(value, 0.3F));
    const auto exact = static_cast<double>(scaled);
    const double gap = std::ldexp(1.0, std::max(std::ilogb(exact == 0 ? 1.0 : exact), -126) - 7);
    wrong += !std::isinf(exact) && !std::isinf(brain) && std::abs(brain - exact) > gap / 2;
  }
  EXPECT_EQ(wrong, 0);
  EXPECT_EQ((pack_element<BFloat16, Float16>(to_bfloat16(1e38F), 1.0F).bits), 0x7c00);
  EXPECT_TRUE(std::isnan(to_float(pack_element<float, BFloat16>(std::numeric_limits<float>::quiet_NaN(), 2.0F))));
}

TEST(Pack, HalvesAreScaledInFloat32) {
  // Above the largest float16.
  const float sum = pack_element<Float16, float>(to_float16(60000.0F), 1.5F);
  EXPECT_EQ(sum, to_float(to_float16(60000.0F)) * 1.5F);
}

/// A norm within the limit, or one that is not finite, changes nothing.
TEST(Pack, LimitsANorm) {
  constexpr double kInfinity = std::numeric_limits<double>::infinity();
  const std::vector<std::pair<double, float>> factors = {{8, 0.25F}, {2, 1},         {1, 1},
                                                         {0, 1},     {kInfinity, 1}, {std::nan(""), 1}};
  for (const auto& [norm, factor] : factors) {
    std::vector<float> values(kPackChunk + 3, 3.0F);
    const PackPiece piece{values.data(), values.data(), values.size()};
    const PackTable table = make_pack_table({&piece, 1}, &norm);
    for (unsigned thread = 0; thread < 32; ++thread) pack_thread<float, float>(table, 2.0F, 0, 1, thread, 32);
    EXPECT_EQ(values, std::vector<float>(kPackChunk + 3, 3 * factor)) << norm;
  }
}

template <class T, class Key>
void expect_ordered_keys() {
  constexpr float kInfinity = std::numeric_limits<float>::infinity();
  const float nan = std::numeric_limits<float>::quiet_NaN();
  std::vector<T> values;
  for (const float x : {-kInfinity, -3.5F, -1.0F, 0.0F, 0.5F, 1.0F, 300.0F, kInfinity, nan, -nan}) {
    values.push_back(testing::element_of<T>(x));
  }
  for (const double sign : {1.0, -1.0}) {
    std::vector<Key> keys(values.size());
    std::vector<T> again(values.size());
    const PackPiece there{values.data(), keys.data(), values.size()};
    const PackPiece back{keys.data(), again.data(), values.size()};
    run_kernel<T, Key>({&there, 1}, sign);
    run_kernel<Key, T>({&back, 1}, sign);
    for (std::size_t i = 0; i < values.size(); ++i) {
      EXPECT_TRUE(i >= 8 ? std::isnan(number(again[i])) : number(again[i]) == number(values[i])) << i;
      if (i > 0 && i < 8) {
        EXPECT_EQ(keys[i - 1].value<keys[i].value, sign> 0) << i;
      }
      if (i < 8) {
        EXPECT_LT(keys[i].value, keys[8].value) << "NaN is above all";
      }
    }
  }
}

TEST(Pack, KeysAreOrderedAsTheFloatsAre) {
  expect_ordered_keys<Float16, FloatKey>();
  expect_ordered_keys<BFloat16, FloatKey>();
  expect_ordered_keys<float, FloatKey>();
  expect_ordered_keys<double, DoubleKey>();
}

template <class T>
void expect_ordered_sum(std::size_t count, unsigned ranks, unsigned rank) {
  std::mt19937 random(ranks * 100 + rank);
  std::vector<T> received(count * ranks);
  for (T& x : received) x = testing::element_of<T>(std::ldexp(static_cast<float>(random() % 999) - 500, -8));
  std::vector<T> own(received.begin() + static_cast<std::ptrdiff_t>(rank * count),
                     received.begin() + static_cast<std::ptrdiff_t>((rank + 1) * count));
  std::vector<const void*> inputs;
  for (unsigned r = 0; r < ranks; ++r) inputs.push_back(received.data() + r * count);
  std::vector<T> expected(count);
  void* const output = expected.data();
  reduce_in_order({&output, 1}, inputs, count, {dtype_of<T>(), ReduceOp::kSum, 1});
  // A rank's own elements are never received.
  std::fill_n(received.begin() + static_cast<std::ptrdiff_t>(rank * count), count, testing::element_of<T>(-1000));
  const OrderedSum sum{own.data(), received.data(), own.data(), count, rank, ranks};
  for (std::size_t thread = 0; thread < 96; ++thread) sum_thread<T>(sum, thread, 96);
  EXPECT_EQ(std::memcmp(own.data(), expected.data(), count * sizeof(T)), 0)
      << name_of(dtype_of<T>()) << ", " << ranks << " ranks";
}

TEST(OrderedSum, HasTheBitsOfTheHostsReduction) {
  for (const unsigned ranks : {1U, 2U, 7U}) {
    for (const unsigned rank : {0U, ranks - 1}) {
      expect_ordered_sum<Float16>(1027, ranks, rank);
      expect_ordered_sum<BFloat16>(1027, ranks, rank);
      expect_ordered_sum<float>(1027, ranks, rank);
      expect_ordered_sum<double>(1027, ranks, rank);
    }
  }
}

}  // namespace
}  // namespace mn

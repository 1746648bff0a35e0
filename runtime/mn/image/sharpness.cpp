#include <mn/image/sharpness.hpp>

#include <algorithm>
#include <cassert>
#include <cstdint>

#include <mn/image/simd.hpp>

namespace mn::data {
namespace {

constexpr int kCenterWeight = 5;
constexpr float kAllWeights = 13;

/// `count` values of a row; `above` and `below` are the rows around it. All pointers are at the first value.
MN_SIMD void sharpen_row(const std::uint8_t* above, const std::uint8_t* row, const std::uint8_t* below, int count,
                         float rest, std::uint8_t* __restrict out) {
  for (int i = 0; i < count; ++i) {
    const int around =
        above[i - 3] + above[i] + above[i + 3] + row[i - 3] + row[i + 3] + below[i - 3] + below[i] + below[i + 3];
    // A sum over 13 is never halfway between whole numbers: the way of rounding does not matter.
    const auto blurred = static_cast<int>(static_cast<float>(around + kCenterWeight * row[i]) / kAllWeights + 0.5F);
    const float value = static_cast<float>(row[i]) + rest * static_cast<float>(blurred - row[i]);
    out[i] = static_cast<std::uint8_t>(static_cast<int>(std::min(std::max(value, 0.0F), 255.0F)));
  }
}

}  // namespace

void adjust_sharpness(const Image& in, double factor, Image& out) {
  assert(&in != &out);
  out = in;
  const auto rest = static_cast<float>(1 - factor);
  if (in.width <= 2) return;
  for (int y = 1; y < in.height - 1; ++y) {
    sharpen_row(in.row(y - 1) + 3, in.row(y) + 3, in.row(y + 1) + 3, 3 * (in.width - 2), rest, out.row(y) + 3);
  }
}

}  // namespace mn::data

#include <algorithm>
#include <cmath>

#include <mn/data/resize.hpp>

// One binary serves every x86-64: the loader picks the version for the CPU (set by CMake where it works).
#ifdef MN_TARGET_CLONES
#define MN_SIMD __attribute__((target_clones("avx2", "default")))
#else
#define MN_SIMD
#endif

namespace mn::data {
namespace {

using Float4 __attribute__((vector_size(16), aligned(4), may_alias)) = float;

/// line[i] = Σₖ weights[k] · rows[k][i]
MN_SIMD void blend_rows(const std::uint8_t* rows, std::size_t stride, const float* weights, int count, int length,
                        float* __restrict line) {
  int k = 0;
  if (count % 2 != 0) {
    for (int i = 0; i < length; ++i) line[i] = weights[0] * static_cast<float>(rows[i]);
    k = 1;
  } else {
    std::fill_n(line, length, 0.0F);
  }
  for (; k < count; k += 2) {
    const std::uint8_t* a = rows + stride * k;
    const std::uint8_t* b = a + stride;
    const float wa = weights[k];
    const float wb = weights[k + 1];
    for (int i = 0; i < length; ++i) line[i] += wa * static_cast<float>(a[i]) + wb * static_cast<float>(b[i]);
  }
}

}  // namespace

void Resizer::Taps::compute(double start, double length, int readable_first, int readable_last, int size) {
  const double scale = length / size;
  const double radius = std::max(scale, 1.0);
  most = static_cast<int>(std::ceil(radius)) * 2 + 1;
  first.resize(size);
  count.resize(size);
  weights.resize(std::size_t(size) * most);
  for (int i = 0; i < size; ++i) {
    const double centre = start + (i + 0.5) * scale;
    const int from = std::clamp(static_cast<int>(std::floor(centre - radius + 0.5)), readable_first, readable_last - 1);
    const int to = std::clamp(static_cast<int>(std::floor(centre + radius + 0.5)), from + 1, readable_last);
    first[i] = from;
    count[i] = to - from;
    float* weight = weights.data() + std::size_t(i) * most;
    double sum = 0;
    for (int k = from; k < to; ++k) sum += std::max(1 - std::abs(k + 0.5 - centre) / radius, 0.0);
    for (int k = from; k < to; ++k) {
      const double share = std::max(1 - std::abs(k + 0.5 - centre) / radius, 0.0);
      weight[k - from] = static_cast<float>(sum > 0 ? share / sum : 1.0 / (to - from));
    }
  }
}

/// Four lanes for three channels: the fourth is ignored.
MN_SIMD static void resample_columns(const float* line, const int* first, const int* count, const float* weights,
                                     int most, int width, bool flip, std::uint8_t* out) {
  const std::ptrdiff_t step = flip ? -3 : 3;
  if (flip) out += std::ptrdiff_t{3} * (width - 1);
  for (int x = 0; x < width; ++x, weights += most, out += step) {
    const float* from = line + std::ptrdiff_t{3} * first[x];
    Float4 sum = {0.5F, 0.5F, 0.5F, 0.5F};  // rounds
    for (int k = 0; k < count[x]; ++k) sum += *reinterpret_cast<const Float4*>(from + 3 * k) * weights[k];
    for (int c = 0; c < 3; ++c) out[c] = static_cast<std::uint8_t>(static_cast<int>(sum[c]));
  }
}

void Resizer::resize(const Image& in, const Box& box, const Region& readable, int width, int height, bool flip,
                     Image& out) {
  columns_.compute(box.x - readable.x, box.width, 0, readable.width, width);
  rows_.compute(box.y, box.height, readable.y, readable.y + readable.height, height);
  out.resize(width, height);
  const int length = 3 * readable.width;
  line_.resize(length + 1);  // the last pixel's fourth lane
  const std::size_t stride = std::size_t{3} * in.width;
  for (int y = 0; y < height; ++y) {
    blend_rows(in.row(rows_.first[y]) + std::ptrdiff_t{3} * readable.x, stride,
               rows_.weights.data() + std::size_t(y) * rows_.most, rows_.count[y], length, line_.data());
    resample_columns(line_.data(), columns_.first.data(), columns_.count.data(), columns_.weights.data(), columns_.most,
                     width, flip, out.row(y));
  }
}

}  // namespace mn::data

#include <mn/image/resize.hpp>

#include <algorithm>
#include <cassert>
#include <cmath>
#include <iterator>

#include <mn/image/simd.hpp>

namespace mn::data {
namespace {

// A pixel's three channels and a fourth value. The fourth is written to the next pixel, and overwritten later.
using Float4 __attribute__((vector_size(16), aligned(4), may_alias)) = float;
using Int4 __attribute__((vector_size(16), aligned(4), may_alias)) = std::int32_t;

double weight_at(double distance, Interpolation filter) {
  const double x = std::abs(distance);
  if (filter == Interpolation::kBilinear) return std::max(1 - x, 0.0);
  if (x < 1) return (1.5 * x - 2.5) * x * x + 1;
  return x < 2 ? ((-0.5 * x + 2.5) * x - 4) * x + 2 : 0;
}

/// line[i] = Σₖ weights[k] · rows[k][i], where two rows at a time are added first. The first pass over the line takes
/// up to four rows, which is enough for most images.
MN_SIMD void blend_rows(const std::uint8_t* rows, std::size_t stride, const float* weights, int count, int length,
                        float* __restrict line) {
  const auto row = [=](int k) { return rows + stride * static_cast<std::size_t>(k); };
  const std::uint8_t* a = row(0);
  const std::uint8_t* b = row(std::min(1, count - 1));
  const std::uint8_t* c = row(std::min(2, count - 1));
  const std::uint8_t* d = row(std::min(3, count - 1));
  const float w[4] = {weights[0], count > 1 ? weights[1] : 0, count > 2 ? weights[2] : 0, count > 3 ? weights[3] : 0};
  const auto value = [](std::uint8_t byte) { return static_cast<float>(byte); };
  int done = 0;
  if (count == 1) {
    for (int i = 0; i < length; ++i) line[i] = w[0] * value(a[i]);
    done = 1;
  } else if (count == 2) {
    for (int i = 0; i < length; ++i) line[i] = w[0] * value(a[i]) + w[1] * value(b[i]);
    done = 2;
  } else if (count % 2 != 0) {
    for (int i = 0; i < length; ++i) line[i] = w[0] * value(a[i]) + (w[1] * value(b[i]) + w[2] * value(c[i]));
    done = 3;
  } else {
    for (int i = 0; i < length; ++i) {
      line[i] = (w[0] * value(a[i]) + w[1] * value(b[i])) + (w[2] * value(c[i]) + w[3] * value(d[i]));
    }
    done = 4;
  }
  for (; done < count; done += 2) {
    a = row(done);
    b = row(done + 1);
    for (int i = 0; i < length; ++i) line[i] += weights[done] * value(a[i]) + weights[done + 1] * value(b[i]);
  }
}

/// Computes a row of target pixels as whole numbers. The number of taps (source pixels with a weight) is a template
/// argument, so that the compiler unrolls the loop.
template <int kTaps>
MN_SIMD void resample(const float* line, const int* first, const float* weights, int width, bool flip, int most,
                      std::int32_t* out) {
  const int taps = kTaps > 0 ? kTaps : most;
  const int step = flip ? -1 : 1;
  int source = flip ? width - 1 : 0;
  for (int x = 0; x < width; ++x, source += step) {
    const float* from = line + std::ptrdiff_t{3} * first[source];
    const float* weight = weights + std::ptrdiff_t{taps} * source;
    Float4 sum = {0.5F, 0.5F, 0.5F, 0.5F};  // the conversion to whole numbers truncates; with 0.5 it rounds
    for (int k = 0; k < taps; ++k) sum += *reinterpret_cast<const Float4*>(from + 3 * k) * weight[k];
    *reinterpret_cast<Int4*>(out + std::ptrdiff_t{3} * x) = __builtin_convertvector(sum, Int4);
  }
}

MN_SIMD void narrow(const std::int32_t* values, int count, std::uint8_t* __restrict out) {
  for (int i = 0; i < count; ++i) out[i] = static_cast<std::uint8_t>(std::min(std::max(values[i], 0), 255));
}

using Resample = void (*)(const float*, const int*, const float*, int, bool, int, std::int32_t*);

/// resample<0> works for any number of taps.
Resample choose_resample(int taps) {
  constexpr Resample kKinds[] = {resample<0>, resample<1>, resample<2>, resample<3>, resample<4>,
                                 resample<5>, resample<6>, resample<7>, resample<8>, resample<9>};
  return kKinds[taps < static_cast<int>(std::size(kKinds)) ? taps : 0];
}

}  // namespace

void Resizer::Taps::compute(double start, double length, int readable_first, int readable_last, int size,
                            Interpolation filter) {
  const double scale = length / size;
  const double stretch = std::max(scale, 1.0);
  const double radius = filter_radius(filter) * stretch;
  const auto center_of = [&](int i) { return start + (i + 0.5) * scale; };
  first.resize(size);
  count.resize(size);
  for (int i = 0; i < size; ++i) {
    const auto rounded = [](double x) { return static_cast<int>(std::floor(x + 0.5)); };
    first[i] = std::clamp(rounded(center_of(i) - radius), readable_first, readable_last - 1);
    count[i] = std::clamp(rounded(center_of(i) + radius), first[i] + 1, readable_last) - first[i];
    assert(first[i] >= readable_first && count[i] > 0 && first[i] + count[i] <= readable_last);  // only readable pixels
  }
  most = *std::max_element(count.begin(), count.end());
  weights.assign(static_cast<std::size_t>(size) * most, 0.0F);
  for (int i = 0; i < size; ++i) {
    float* weight = weights.data() + static_cast<std::size_t>(i) * most;
    const auto share = [&](int k) { return weight_at((first[i] + k + 0.5 - center_of(i)) / stretch, filter); };
    double sum = 0;
    for (int k = 0; k < count[i]; ++k) sum += share(k);
    for (int k = 0; k < count[i]; ++k) weight[k] = static_cast<float>(sum > 0 ? share(k) / sum : 1.0 / count[i]);
  }
}

void Resizer::resize(const Image& in, const Box& box, const Region& readable, int width, int height, bool flip,
                     Image& out, Interpolation filter) {
  assert(&in != &out && readable.x >= 0 && readable.x + readable.width <= in.width);
  assert(readable.y >= 0 && readable.y + readable.height <= in.height);
  columns_.compute(box.x - readable.x, box.width, 0, readable.width, width, filter);
  rows_.compute(box.y, box.height, readable.y, readable.y + readable.height, height, filter);
  out.resize(width, height);
  const int length = 3 * readable.width;
  line_.assign(length + 3 * columns_.most + 1, 0.0F);  // taps of weight 0 and fourth lanes read beyond the end
  wide_.resize(3 * static_cast<std::size_t>(width) + 1);
  const std::size_t stride = std::size_t{3} * in.width;
  const Resample resample_columns = choose_resample(columns_.most);
  for (int y = 0; y < height; ++y) {
    blend_rows(in.row(rows_.first[y]) + std::ptrdiff_t{3} * readable.x, stride,
               rows_.weights.data() + static_cast<std::size_t>(y) * rows_.most, rows_.count[y], length, line_.data());
    resample_columns(line_.data(), columns_.first.data(), columns_.weights.data(), width, flip, columns_.most,
                     wide_.data());
    narrow(wide_.data(), 3 * width, out.row(y));
  }
}

}  // namespace mn::data

#include <algorithm>
#include <cmath>

#include <gtest/gtest.h>

#include <mn/image/resize.hpp>

#include "tests/image/jpeg_samples.hpp"

namespace mn::data {
namespace {

/// The filter's value at this distance from the center of a target pixel, in widths of the filter.
double weight_of(double distance, Interpolation filter) {
  const double x = std::abs(distance);
  if (filter == Interpolation::kBilinear) return std::max(0.0, 1 - x);
  constexpr double a = -0.5;  // Keys's formula
  if (x <= 1) return (a + 2) * x * x * x - (a + 3) * x * x + 1;
  return x < 2 ? a * x * x * x - 5 * a * x * x + 8 * a * x - 4 * a : 0;
}

/// The definition, pixel by pixel: a weighted mean under a filter whose width is one target pixel, but at least one
/// source pixel.
double sampled(const Image& in, const Box& box, const Region& readable, int width, int height, int x, int y, int c,
               Interpolation filter) {
  const double scale_x = box.width / width;
  const double scale_y = box.height / height;
  const double center_x = box.x + (x + 0.5) * scale_x;
  const double center_y = box.y + (y + 0.5) * scale_y;
  double sum = 0;
  double weights = 0;
  for (int v = readable.y; v < readable.y + readable.height; ++v) {
    const double wy = weight_of((v + 0.5 - center_y) / std::max(scale_y, 1.0), filter);
    for (int u = readable.x; wy != 0 && u < readable.x + readable.width; ++u) {
      const double weight = wy * weight_of((u + 0.5 - center_x) / std::max(scale_x, 1.0), filter);
      sum += weight * in.row(v)[3 * u + c];
      weights += weight;
    }
  }
  return std::clamp(sum / weights, 0.0, 255.0);
}

TEST(Resizer, EqualsTheDefinition) {
  const Image in = draw_image(90, 70);
  struct Case {
    Box box;
    Region readable;
    int width, height;
  };
  const Case cases[] = {{{0, 0, 90, 70}, {0, 0, 90, 70}, 40, 30},         {{0, 0, 90, 70}, {0, 0, 90, 70}, 133, 97},
                        {{10, 5, 31, 47}, {10, 5, 31, 47}, 17, 64},       {{10, 5, 31, 47}, {0, 0, 90, 70}, 17, 23},
                        {{3.25, 8.5, 60.5, 40.75}, {3, 8, 61, 42}, 9, 9}, {{2, 2, 1, 1}, {2, 2, 1, 1}, 5, 3},
                        {{0, 0, 90, 70}, {0, 0, 90, 70}, 1, 1},           {{89, 69, 1, 1}, {80, 60, 10, 10}, 8, 8}};
  Resizer resizer;
  Image out;
  for (const auto& [box, readable, width, height] : cases) {
    for (const auto& [flip, filter] : {std::pair(false, Interpolation::kBilinear),
                                       {true, Interpolation::kBilinear},
                                       {false, Interpolation::kBicubic},
                                       {true, Interpolation::kBicubic}}) {
      resizer.resize(in, box, readable, width, height, flip, out, filter);
      ASSERT_EQ(out.width, width);
      ASSERT_EQ(out.height, height);
      for (int y = 0; y < height; ++y) {
        for (int x = 0; x < width; ++x) {
          for (int c = 0; c < 3; ++c) {
            const double expected = sampled(in, box, readable, width, height, flip ? width - 1 - x : x, y, c, filter);
            EXPECT_NEAR(out.row(y)[3 * x + c], expected, 0.501) << width << "x" << height << " at " << x << "," << y;
          }
        }
      }
    }
  }
}

TEST(Resizer, SameSizeCopies) {
  const Image in = draw_image(33, 21);
  Image out;
  Resizer().resize(in, {0, 0, 33, 21}, {0, 0, 33, 21}, 33, 21, false, out);
  EXPECT_EQ(out.pixels, in.pixels);
}

}  // namespace
}  // namespace mn::data

#include "tests/support/textured_image.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <numbers>
#include <vector>

#include <mn/image/sample_random.hpp>

namespace mn::test {
namespace {

using Color = std::array<double, 3>;
using data::SampleRandom;

constexpr double kGoldenRatio = std::numbers::phi - 1;  // its multiples spread evenly, however many there are
constexpr double kGrain = 32;                           // largest deviation, in steps of 8 bits

/// Red, green and blue of a hue in [0, 1), fully saturated, then mixed with white and darkened.
Color color_of(double hue, double saturation, double brightness) {
  Color color;
  for (int c = 0; c < 3; ++c) {
    const double distance = std::abs(std::remainder(hue - c / 3.0, 1.0));  // from this primary, at most 1/2
    const double pure = std::clamp(2 - 6 * distance, 0.0, 1.0);
    color[c] = 255 * brightness * (1 - saturation * (1 - pure));
  }
  return color;
}

/// Octaves of random values on lattices, interpolated: a field in [0, 1] that varies as natural scenes do.
class Clouds {
 public:
  Clouds(int width, int height, SampleRandom& random) : width_(width) {
    double weight = 0.5;
    for (int cells = 3; cells <= 48; cells *= 2, weight /= 2) {
      Octave octave{cells, weight, double(cells) / std::max(width, height), {}};
      octave.values.resize(std::size_t(cells + 2) * (cells + 2));
      for (double& value : octave.values) value = random.uniform(0, 1);
      octaves_.push_back(std::move(octave));
    }
  }

  void row(int y, std::vector<double>& out) const {
    out.assign(width_, 0);
    for (const Octave& octave : octaves_) {
      const int stride = octave.cells + 2;
      const double v = y * octave.per_pixel;
      const double* top = &octave.values[std::size_t(v) * stride];
      const double down = v - std::floor(v);
      for (int x = 0; x < width_; ++x) {
        const double u = x * octave.per_pixel;
        const int i = static_cast<int>(u);
        const double left = top[i] + down * (top[i + stride] - top[i]);
        const double right = top[i + 1] + down * (top[i + 1 + stride] - top[i + 1]);
        out[x] += octave.weight * (left + (u - i) * (right - left));
      }
    }
  }

 private:
  struct Octave {
    int cells;
    double weight;
    double per_pixel;
    std::vector<double> values;  // (cells + 2, cells + 2)
  };
  int width_;
  std::vector<Octave> octaves_;
};

enum class Outline { kDisk, kSquare, kDiamond, kRing, kCross };
constexpr int kOutlines = 5;

/// (u, v) are relative to the center, in radii.
bool inside(Outline outline, double u, double v) {
  const double a = std::abs(u), b = std::abs(v);
  switch (outline) {
    case Outline::kDisk:
      return u * u + v * v < 1;
    case Outline::kSquare:
      return std::max(a, b) < 0.85;
    case Outline::kDiamond:
      return a + b < 1.15;
    case Outline::kRing:
      return u * u + v * v < 1 && u * u + v * v > 0.25;
    case Outline::kCross:
      return std::max(a, b) < 1 && std::min(a, b) < 0.38;
  }
  return false;
}

struct Shape {
  Outline outline;
  double x, y, radius;      // pixels
  double along_u, along_v;  // stripes: cycles for each radius
  double phase;             // cycles
  Color bright, dark;

  /// The color at a pixel; no value outside.
  const Color* at(int column, int row) const {
    const double u = (column - x) / radius, v = (row - y) / radius;
    if (!inside(outline, u, v)) return nullptr;
    const double cycles = u * along_u + v * along_v + phase;
    return cycles - std::floor(cycles) < 0.5 ? &bright : &dark;
  }
};

Shape shape_of(int label, int width, int height, SampleRandom& random) {
  Shape shape;
  shape.outline = static_cast<Outline>(label % kOutlines);
  shape.radius = std::min(width, height) * random.uniform(0.25, 0.45);
  shape.x = random.uniform(0.7 * shape.radius, width - 0.7 * shape.radius);
  shape.y = random.uniform(0.7 * shape.radius, height - 0.7 * shape.radius);
  const double angle = std::numbers::pi * (label * kGoldenRatio + random.uniform(-0.05, 0.05));
  const double cycles = (1.5 + label % 3) * random.uniform(0.9, 1.1);
  shape.along_u = cycles * std::cos(angle);
  shape.along_v = cycles * std::sin(angle);
  shape.phase = random.uniform(0, 1);
  const double hue = label * kGoldenRatio * kGoldenRatio + random.uniform(-0.08, 0.08);
  const double saturation = random.uniform(0.5, 0.9), brightness = random.uniform(0.6, 0.95);
  shape.bright = color_of(hue, saturation, brightness);
  shape.dark = color_of(hue, saturation, 0.5 * brightness);
  return shape;
}

}  // namespace

data::Image draw_textured_image(const ImageKey& key, int width, int height) {
  SampleRandom random(key.seed, key.label, key.index);
  const Shape shape = shape_of(key.label, width, height, random);
  const auto any_color = [&] {
    const double hue = random.uniform(0, 1), saturation = random.uniform(0.1, 0.6);
    return color_of(hue, saturation, random.uniform(0.3, 0.9));
  };
  const Color from = any_color(), to = any_color();
  const Clouds clouds(width, height, random);
  data::Image image;
  image.resize(width, height);
  std::vector<double> field;
  for (int y = 0; y < height; ++y) {
    clouds.row(y, field);
    std::uint8_t* pixel = image.row(y);
    for (int x = 0; x < width; ++x, pixel += 3) {
      const double grain = random.uniform(-kGrain, kGrain);
      const Color* color = shape.at(x, y);
      for (int c = 0; c < 3; ++c) {
        const double value = color != nullptr ? (*color)[c] : from[c] + field[x] * (to[c] - from[c]);
        pixel[c] = static_cast<std::uint8_t>(std::clamp(value + grain, 0.0, 255.0));
      }
    }
  }
  return image;
}

}  // namespace mn::test

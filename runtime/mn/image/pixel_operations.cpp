// Sums are computed in float32, in torchvision's order of operations, without fused multiply-add, so every CPU gives
// equal bits. torchvision may use fused multiply-add; then a value near a whole number may differ by ±1.
// Source: torchvision 0.26, torchvision/transforms/v2/functional/_color.py.
#include <mn/image/pixel_operations.hpp>

#include <algorithm>
#include <array>
#include <cassert>
#include <cmath>
#include <cstdint>

#include <mn/image/simd.hpp>

namespace mn::data {
namespace {

constexpr float kRedWeight = 0.2989F;
constexpr float kGreenWeight = 0.587F;
constexpr float kBlueWeight = 0.114F;

using Tables = std::array<std::array<std::uint8_t, 256>, 3>;

std::size_t pixels_of(const Image& image) { return image.pixels.size() / 3; }

/// The sum of the pixels' grays, each truncated. `pixels` is at most 2³¹ / 255, because a larger sum could overflow.
MN_SIMD std::int32_t sum_gray(const std::uint8_t* rgb, std::size_t pixels) {
  std::int32_t sum = 0;
  for (std::size_t i = 0; i < pixels; ++i) {
    const float gray = static_cast<float>(rgb[3 * i]) * kRedWeight + static_cast<float>(rgb[3 * i + 1]) * kGreenWeight +
                       static_cast<float>(rgb[3 * i + 2]) * kBlueWeight;
    sum += static_cast<std::int32_t>(gray);
  }
  return sum;
}

MN_SIMD void blend_with_gray(std::uint8_t* rgb, std::size_t pixels, float factor, float rest) {
  const auto byte = [](float value) __attribute__((always_inline)) {
    return static_cast<std::uint8_t>(static_cast<int>(std::min(std::max(value, 0.0F), 255.0F)));
  };
  for (std::size_t i = 0; i < pixels; ++i) {
    const auto red = static_cast<float>(rgb[3 * i]);
    const auto green = static_cast<float>(rgb[3 * i + 1]);
    const auto blue = static_cast<float>(rgb[3 * i + 2]);
    const float gray = red * kRedWeight + green * kGreenWeight + blue * kBlueWeight;
    const float part = static_cast<float>(static_cast<int>(gray)) * rest;
    rgb[3 * i] = byte(red * factor + part);
    rgb[3 * i + 1] = byte(green * factor + part);
    rgb[3 * i + 2] = byte(blue * factor + part);
  }
}

/// Converts each pixel to hue, saturation and value (Smith 1978), turns the hue, and converts back.
MN_SIMD void turn_hue(std::uint8_t* rgb, std::size_t pixels, float turns) {
  const auto unit = [](float value) __attribute__((always_inline)) { return std::min(std::max(value, 0.0F), 1.0F); };
  const auto byte = [](float value) __attribute__((always_inline)) {
    return static_cast<std::uint8_t>(static_cast<int>(value * 255.999F));
  };
  for (std::size_t i = 0; i < pixels; ++i) {
    const float red = static_cast<float>(rgb[3 * i]) * (1.0F / 255);
    const float green = static_cast<float>(rgb[3 * i + 1]) * (1.0F / 255);
    const float blue = static_cast<float>(rgb[3 * i + 2]) * (1.0F / 255);
    const float most = std::max(std::max(red, green), blue);
    const float range = most - std::min(std::min(red, green), blue);
    const bool gray = range == 0.0F;
    const float divisor = gray ? 1.0F : range;
    const float r = (most - red) / divisor;
    const float g = (most - green) / divisor;
    const float b = (most - blue) / divisor;
    const float sector = most == red ? b - g : most == green ? r + 2.0F - b : g + 4.0F - r;
    float hue = sector * (1.0F / 6.0F) + 1.0F;
    hue -= static_cast<float>(static_cast<int>(hue));
    hue += turns;
    hue = (hue < 0.0F ? hue + 1.0F : hue);
    hue -= static_cast<float>(static_cast<int>(hue));

    const float saturation = range / (gray ? 1.0F : most);
    const float six = hue * 6.0F;
    const int whole = static_cast<int>(six);
    const float rising = saturation * (six - static_cast<float>(whole));
    const float p = unit((1.0F - saturation) * most);
    const float q = unit((1.0F - rising) * most);
    const float t = unit((rising + (1.0F - saturation)) * most);
    const int n = whole == 6 ? 0 : whole;
    const float new_red = n == 0 || n == 5 ? most : n == 1 ? q : n == 4 ? t : p;
    const float new_green = n == 1 || n == 2 ? most : n == 3 ? q : n == 0 ? t : p;
    const float new_blue = n == 3 || n == 4 ? most : n == 5 ? q : n == 2 ? t : p;
    rgb[3 * i] = byte(new_red);
    rgb[3 * i + 1] = byte(new_green);
    rgb[3 * i + 2] = byte(new_blue);
  }
}

MN_SIMD void keep_bits(std::uint8_t* values, std::size_t count, std::uint8_t mask) {
  for (std::size_t i = 0; i < count; ++i) values[i] &= mask;
}

MN_SIMD void invert_from(std::uint8_t* values, std::size_t count, std::uint8_t least) {
  for (std::size_t i = 0; i < count; ++i) {
    values[i] = static_cast<std::uint8_t>(values[i] >= least ? ~values[i] : values[i]);
  }
}

/// The least and the greatest value of each channel.
MN_SIMD void find_range(const std::uint8_t* rgb, std::size_t pixels, std::uint8_t* __restrict least,
                        std::uint8_t* __restrict most) {
  for (std::size_t i = 0; i < pixels; ++i, rgb += 3) {
    for (int c = 0; c < 3; ++c) {
      least[c] = std::min(least[c], rgb[c]);
      most[c] = std::max(most[c], rgb[c]);
    }
  }
}

/// Replaces each value by its entry in the channel's table, quicker than float32 arithmetic on eight values at once.
void look_up(Image& image, const Tables& tables) {
  std::uint8_t* rgb = image.pixels.data();
  for (std::size_t i = 0; i < pixels_of(image); ++i, rgb += 3) {
    rgb[0] = tables[0][rgb[0]];
    rgb[1] = tables[1][rgb[1]];
    rgb[2] = tables[2][rgb[2]];
  }
}

/// Each value becomes factor · value + offset.
void scale_values(Image& image, float factor, float offset) {
  Tables tables;
  for (int value = 0; value < 256; ++value) {
    const float scaled = static_cast<float>(value) * factor + offset;
    tables[0][value] = static_cast<std::uint8_t>(std::clamp(scaled, 0.0F, 255.0F));
  }
  tables[1] = tables[2] = tables[0];
  look_up(image, tables);
}

/// Fills the table that makes a channel's histogram even: about `step` pixels for each value; 0: no change.
void fill_equal_table(const std::array<int, 256>& histogram, int pixels, std::array<std::uint8_t, 256>& table) {
  int last = 255;
  while (last > 0 && histogram[last] == 0) --last;
  const int step = (pixels - histogram[last]) / 255;
  int below = step / 2;
  for (int value = 0; value < 256; ++value) {
    table[value] = static_cast<std::uint8_t>(step == 0 ? value : std::min(below / step, 255));
    below += histogram[value];
  }
}

constexpr int kCenterWeight = 5;
constexpr float kAllWeights = 13;

/// Sharpens the first `count` values that `row` points to. `above` and `below` point into the neighboring rows.
MN_SIMD void sharpen_row(const std::uint8_t* above, const std::uint8_t* row, const std::uint8_t* below, int count,
                         float rest, std::uint8_t* __restrict out) {
  for (int i = 0; i < count; ++i) {
    const int around =
        above[i - 3] + above[i] + above[i + 3] + row[i - 3] + row[i + 3] + below[i - 3] + below[i] + below[i + 3];
    // A sum divided by 13 is never halfway between whole numbers.
    const auto blurred = static_cast<int>(static_cast<float>(around + kCenterWeight * row[i]) / kAllWeights + 0.5F);
    const float value = static_cast<float>(row[i]) + rest * static_cast<float>(blurred - row[i]);
    out[i] = static_cast<std::uint8_t>(static_cast<int>(std::min(std::max(value, 0.0F), 255.0F)));
  }
}

}  // namespace

void adjust_brightness(Image& image, double factor) { scale_values(image, static_cast<float>(factor), 0); }

void adjust_contrast(Image& image, double factor) {
  constexpr std::size_t kPart = std::size_t{1} << 20;
  std::int64_t sum = 0;
  for (std::size_t first = 0; first < pixels_of(image); first += kPart) {
    sum += sum_gray(image.pixels.data() + 3 * first, std::min(kPart, pixels_of(image) - first));
  }
  const float mean = static_cast<float>(sum) / static_cast<float>(pixels_of(image));
  scale_values(image, static_cast<float>(factor), static_cast<float>(1 - factor) * mean);
}

void adjust_saturation(Image& image, double factor) {
  blend_with_gray(image.pixels.data(), pixels_of(image), static_cast<float>(factor), static_cast<float>(1 - factor));
}

void adjust_hue(Image& image, double turns) {
  turn_hue(image.pixels.data(), pixels_of(image), static_cast<float>(turns));
}

void posterize(Image& image, int bits) {
  keep_bits(image.pixels.data(), image.pixels.size(), static_cast<std::uint8_t>(0xFF << (8 - bits)));
}

void solarize(Image& image, double threshold) {
  const float least = std::ceil(static_cast<float>(threshold));
  if (least > 255) return;
  invert_from(image.pixels.data(), image.pixels.size(), static_cast<std::uint8_t>(std::max(least, 0.0F)));
}

void autocontrast(Image& image) {
  std::uint8_t least[3] = {255, 255, 255};
  std::uint8_t most[3] = {0, 0, 0};
  find_range(image.pixels.data(), pixels_of(image), least, most);
  Tables tables;
  for (int c = 0; c < 3; ++c) {
    const bool flat = most[c] == least[c];
    const float first = flat ? 0 : least[c];
    const float step = flat ? 1 : static_cast<float>(most[c] - least[c]) * (1.0F / 255);
    for (int value = 0; value < 256; ++value) {
      const float stretched = (static_cast<float>(value) - first) / step;
      tables[c][value] = static_cast<std::uint8_t>(std::clamp(stretched, 0.0F, 255.0F));
    }
  }
  look_up(image, tables);
}

void equalize(Image& image) {
  std::array<std::array<int, 256>, 3> histograms = {};
  const std::uint8_t* rgb = image.pixels.data();
  for (std::size_t i = 0; i < pixels_of(image); ++i, rgb += 3) {
    ++histograms[0][rgb[0]];
    ++histograms[1][rgb[1]];
    ++histograms[2][rgb[2]];
  }
  Tables tables;
  for (int c = 0; c < 3; ++c) fill_equal_table(histograms[c], static_cast<int>(pixels_of(image)), tables[c]);
  look_up(image, tables);
}

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

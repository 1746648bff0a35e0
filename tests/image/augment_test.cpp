#include <mn/image/augment.hpp>

#include <algorithm>
#include <cmath>
#include <map>
#include <set>
#include <string>
#include <thread>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <mn/core/error.hpp>

#include "tests/image/jpeg_samples.hpp"

namespace mn::data {
namespace {

/// The definition, pixel by pixel: a weighted mean under a triangle whose half-width is one target pixel, but at least
/// one source pixel.
double sampled(const Image& in, const Box& box, const Region& readable, int width, int height, int x, int y, int c) {
  const double scale_x = box.width / width;
  const double scale_y = box.height / height;
  const double centre_x = box.x + (x + 0.5) * scale_x;
  const double centre_y = box.y + (y + 0.5) * scale_y;
  double sum = 0;
  double weights = 0;
  for (int v = readable.y; v < readable.y + readable.height; ++v) {
    const double wy = std::max(0.0, 1 - std::abs(v + 0.5 - centre_y) / std::max(scale_y, 1.0));
    for (int u = readable.x; wy > 0 && u < readable.x + readable.width; ++u) {
      const double weight = wy * std::max(0.0, 1 - std::abs(u + 0.5 - centre_x) / std::max(scale_x, 1.0));
      sum += weight * in.row(v)[3 * u + c];
      weights += weight;
    }
  }
  return sum / weights;
}

TEST(Resizer, EqualsTheDefinition) {
  const Image in = make_picture(90, 70);
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
    for (const bool flip : {false, true}) {
      resizer.resize(in, box, readable, width, height, flip, out);
      ASSERT_EQ(out.width, width);
      ASSERT_EQ(out.height, height);
      for (int y = 0; y < height; ++y) {
        for (int x = 0; x < width; ++x) {
          for (int c = 0; c < 3; ++c) {
            const double expected = sampled(in, box, readable, width, height, flip ? width - 1 - x : x, y, c);
            EXPECT_NEAR(out.row(y)[3 * x + c], expected, 0.501) << width << "x" << height << " at " << x << "," << y;
          }
        }
      }
    }
  }
}

TEST(Resizer, SameSizeCopies) {
  const Image in = make_picture(33, 21);
  Image out;
  Resizer().resize(in, {0, 0, 33, 21}, {0, 0, 33, 21}, 33, 21, false, out);
  EXPECT_EQ(out.pixels, in.pixels);
}

TEST(SampleRandom, DependsOnSeedEpochAndIndexAlone) {
  std::set<double> seen;
  for (std::uint64_t seed = 0; seed < 4; ++seed) {
    for (std::int64_t epoch = 0; epoch < 4; ++epoch) {
      for (std::int64_t index = 0; index < 4; ++index) {
        EXPECT_EQ(SampleRandom(seed, epoch, index).uniform(0, 1), SampleRandom(seed, epoch, index).uniform(0, 1));
        seen.insert(SampleRandom(seed, epoch, index).uniform(0, 1));
      }
    }
  }
  EXPECT_EQ(seen.size(), 64u);
}

TEST(SampleRandom, IsUniform) {
  double sum = 0;
  double squares = 0;
  std::map<int, int> counts;
  constexpr int kDraws = 60000;
  for (int i = 0; i < kDraws; ++i) {
    SampleRandom random(7, 0, i);
    const double u = random.uniform(2, 4);
    EXPECT_GE(u, 2);
    EXPECT_LT(u, 4);
    sum += u;
    squares += u * u;
    ++counts[random.below(6)];
  }
  EXPECT_NEAR(sum / kDraws, 3, 0.01);
  EXPECT_NEAR(squares / kDraws - 9, 1.0 / 3, 0.02);
  ASSERT_EQ(counts.size(), 6u);
  for (const auto& [value, count] : counts) EXPECT_NEAR(count, kDraws / 6, 500) << value;
}

TEST(Crop, RandomResizedKeepsItsPromises) {
  const CropOptions options;
  int flips = 0;
  int fallbacks = 0;
  double area_sum = 0;
  for (int i = 0; i < 2000; ++i) {
    SampleRandom random(1, 2, i);
    const Crop crop = choose_crop(500, 375, options, random);
    const Region& r = crop.readable;
    EXPECT_GE(r.x, 0);
    EXPECT_GE(r.y, 0);
    EXPECT_LE(r.x + r.width, 500);
    EXPECT_LE(r.y + r.height, 375);
    EXPECT_EQ(crop.box.width, r.width);
    const double area = double(r.width) * r.height / (500 * 375);
    EXPECT_GT(area, 0.078);
    EXPECT_LE(area, 1);
    EXPECT_GT(double(r.width) / r.height, 0.74);
    EXPECT_LT(double(r.width) / r.height, 1.35);
    flips += crop.flip;
    fallbacks += r.width == 500 && r.height == 375;
    area_sum += area;
  }
  EXPECT_NEAR(flips, 1000, 90);
  EXPECT_NEAR(area_sum / 2000, 0.432, 0.02);  // not 0.54: large parts often do not fit and are drawn again
  EXPECT_LT(fallbacks, 100);
}

TEST(Crop, NarrowPicturesFallBackToTheCentre) {
  SampleRandom random(0, 0, 0);
  const Crop wide = choose_crop(1000, 10, {.min_area = 0.9}, random);
  EXPECT_EQ(wide.readable, (Region{493, 0, 13, 10}));
  const Crop tall = choose_crop(10, 1000, {.min_area = 0.9}, random);
  EXPECT_EQ(tall.readable, (Region{0, 493, 10, 13}));
  EXPECT_EQ(choose_crop(1, 1, {}, random).readable, (Region{0, 0, 1, 1}));
}

TEST(Crop, CentreIsThatOfTheResizedPicture) {
  SampleRandom random(0, 0, 0);
  const CropOptions options = {.mode = CropMode::kCenter, .size = 224, .resize = 256};
  const Crop crop = choose_crop(500, 400, options, random);  // becomes 320 × 256, cut at (48, 16)
  EXPECT_EQ(crop.in_resized, (Region{48, 16, 224, 224}));
  EXPECT_DOUBLE_EQ(crop.box.x, 48 * 500.0 / 320);
  EXPECT_DOUBLE_EQ(crop.box.y, 16 * 400.0 / 256);
  EXPECT_DOUBLE_EQ(crop.box.width, 224 * 500.0 / 320);
  EXPECT_FALSE(crop.flip);
  // 401 × 300 becomes 342 × 256; half of 118 is 59.
  EXPECT_EQ(choose_crop(401, 300, options, random).in_resized, (Region{59, 16, 224, 224}));
  // 300 × 400 becomes 256 × 341; half of 117 rounds to the even neighbour, as Python's round() does.
  EXPECT_EQ(choose_crop(300, 400, options, random).in_resized, (Region{16, 58, 224, 224}));
}

TEST(Crop, FixedPlacesCoverTheRoom) {
  const CropOptions options = {.mode = CropMode::kRandomFixed, .size = 30, .resize = 32};
  std::set<std::pair<int, int>> places;
  for (int i = 0; i < 200; ++i) {
    SampleRandom random(0, 0, i);
    const Crop crop = choose_crop(64, 96, options, random);
    places.emplace(crop.in_resized.x, crop.in_resized.y);
    EXPECT_DOUBLE_EQ(crop.box.x, 2.0 * crop.in_resized.x);
    EXPECT_DOUBLE_EQ(crop.box.y, 3.0 * crop.in_resized.y);
  }
  EXPECT_EQ(places.size(), 9u);
}

CropOptions small(CropMode mode) { return {.mode = mode, .size = 48, .resize = 56}; }

TEST(ImageAugmenter, CutsBeforeResizing) {
  const auto jpeg = encode_jpeg(make_picture(100, 80));
  const Image whole = decode_image(jpeg);
  ImageAugmenter augmenter(small(CropMode::kRandomResized), {}, PixelLayout::kNchw);
  Resizer resizer;
  Image expected;
  for (int i = 0; i < 30; ++i) {
    Crop crop;
    const Image& image = augmenter.augment(jpeg, 5, 1, i, crop);
    if (crop.box.width >= 96) continue;  // decoded at half its size
    resizer.resize(whole, crop.box, crop.readable, 48, 48, crop.flip, expected);
    EXPECT_EQ(image.pixels, expected.pixels);
  }
}

TEST(ImageAugmenter, CentreEqualsResizingEverythingThenCutting) {
  for (const auto& [width, height] : {std::pair(100, 80), {57, 91}, {56, 56}, {30, 40}}) {
    const auto jpeg = encode_jpeg(make_picture(width, height));
    const int resized_width = width <= height ? 56 : 56 * width / height;
    const int resized_height = width <= height ? 56 * height / width : 56;
    Image resized;
    Resizer().resize(decode_image(jpeg), {0, 0, double(width), double(height)}, {0, 0, width, height}, resized_width,
                     resized_height, false, resized);
    Crop crop;
    ImageAugmenter augmenter(small(CropMode::kCenter), {}, PixelLayout::kNchw);
    const Image& image = augmenter.augment(jpeg, 0, 0, 0, crop);
    for (int y = 0; y < 48; ++y) {
      const auto* row = resized.row(crop.in_resized.y + y) + 3 * crop.in_resized.x;
      for (int i = 0; i < 3 * 48; ++i) EXPECT_NEAR(image.row(y)[i], row[i], 1) << width << "x" << height;
    }
  }
}

TEST(ImageAugmenter, ReducedDecodingStaysClose) {
  const auto jpeg = encode_jpeg(make_picture(500, 400), {.quality = 95});
  ImageAugmenter augmenter(small(CropMode::kCenter), {}, PixelLayout::kNchw);
  Crop crop;
  const Image& image = augmenter.augment(jpeg, 0, 0, 0, crop);
  Image expected;
  Resizer().resize(decode_image(jpeg), crop.box, crop.readable, 48, 48, false, expected);
  double sum = 0;
  for (std::size_t i = 0; i < expected.pixels.size(); ++i) sum += std::abs(image.pixels[i] - expected.pixels[i]);
  EXPECT_LT(sum / static_cast<double>(expected.pixels.size()), 2);
}

TEST(ImageAugmenter, NormalisesInBothLayouts) {
  const auto jpeg = encode_jpeg(make_picture(100, 80));
  const CropOptions options = small(CropMode::kRandomResized);
  const Normalization normalization = {.mean = {0.5F, 0.25F, 0.125F}, .stddev = {0.25F, 0.5F, 1.0F}};
  ImageAugmenter planes(options, normalization, PixelLayout::kNchw);
  ImageAugmenter pixels(options, normalization, PixelLayout::kNhwc);
  std::vector<float> nchw(3 * 48 * 48);
  std::vector<float> nhwc(3 * 48 * 48);
  planes(jpeg, 1, 2, 3, nchw);
  pixels(jpeg, 1, 2, 3, nhwc);
  Crop crop;
  const Image& image = planes.augment(jpeg, 1, 2, 3, crop);
  for (int i = 0; i < 48 * 48; ++i) {
    for (int c = 0; c < 3; ++c) {
      const float expected = (image.pixels[3 * i + c] / 255.0F - normalization.mean[c]) / normalization.stddev[c];
      EXPECT_NEAR(nchw[48 * 48 * c + i], expected, 1e-6);
      EXPECT_NEAR(nhwc[3 * i + c], expected, 1e-6);
    }
  }
}

TEST(ImageAugmenter, MeanImageIsTakenOffWhereThePartLies) {
  const auto jpeg = encode_jpeg(make_picture(100, 80));
  const CropOptions options = small(CropMode::kRandomFixed);
  Normalization normalization;
  for (int i = 0; i < 3 * 56 * 56; ++i) normalization.mean_image.push_back(static_cast<float>(i % 251));
  ImageAugmenter planes(options, normalization, PixelLayout::kNchw);
  ImageAugmenter pixels(options, normalization, PixelLayout::kNhwc);
  std::vector<float> nchw(3 * 48 * 48);
  std::vector<float> nhwc(3 * 48 * 48);
  for (int index = 0; index < 8; ++index) {
    planes(jpeg, 0, 0, index, nchw);
    pixels(jpeg, 0, 0, index, nhwc);
    Crop crop;
    const Image& image = planes.augment(jpeg, 0, 0, index, crop);
    for (int y = 0; y < 48; ++y) {
      for (int x = 0; x < 48; ++x) {
        for (int c = 0; c < 3; ++c) {
          const int mean = (c * 56 + crop.in_resized.y + y) * 56 + crop.in_resized.x + x;
          const float expected = (image.row(y)[3 * x + c] - static_cast<float>(mean % 251)) / 255.0F;
          EXPECT_FLOAT_EQ(nchw[(c * 48 + y) * 48 + x], expected);
          EXPECT_FLOAT_EQ(nhwc[3 * (y * 48 + x) + c], expected);
        }
      }
    }
  }
}

TEST(ImageAugmenter, SameBitsOnAnyThreadAndAfterAnyOtherSample) {
  const auto jpeg = encode_jpeg(make_picture(300, 200));
  const auto other = encode_jpeg(make_picture(77, 201), {.progressive = true, .orientation = 6});
  const auto run = [&](bool with_others, std::vector<float>& out) {
    ImageAugmenter augmenter(small(CropMode::kRandomResized), {}, PixelLayout::kNchw);
    for (int i = 0; i < 20; ++i) {
      std::vector<float> one(3 * 48 * 48);
      if (with_others) augmenter(other, 1, 1, i, one);
      augmenter(jpeg, 1, 1, i, one);
      out.insert(out.end(), one.begin(), one.end());
    }
  };
  std::vector<float> first;
  std::vector<float> second;
  run(false, first);
  std::thread([&] { run(true, second); }).join();
  EXPECT_EQ(first, second);
}

TEST(ImageAugmenter, BadOptionsAreErrors) {
  const auto make = [](const CropOptions& options, Normalization normalization) {
    ImageAugmenter(options, std::move(normalization), PixelLayout::kNchw);
  };
  EXPECT_THROW(make({.mode = CropMode::kCenter, .size = 64, .resize = 56}, {}), ArgumentError);
  EXPECT_THROW(make(small(CropMode::kRandomFixed), {.mean_image = std::vector<float>(5)}), ArgumentError);
  EXPECT_THROW(make(small(CropMode::kRandomResized), {.mean_image = std::vector<float>(3 * 56 * 56)}), ArgumentError);
  ImageAugmenter augmenter(small(CropMode::kCenter), {}, PixelLayout::kNchw);
  std::vector<float> out(5);
  EXPECT_THROW(augmenter({}, 0, 0, 0, out), ArgumentError);
}

}  // namespace
}  // namespace mn::data

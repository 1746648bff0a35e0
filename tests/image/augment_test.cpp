#include <algorithm>
#include <cmath>
#include <string>
#include <thread>

#include <gtest/gtest.h>

#include <mn/core/error.hpp>
#include <mn/image/augment.hpp>

#include "tests/image/jpeg_samples.hpp"

namespace mn::data {
namespace {

CropOptions small(CropMode mode) { return {.mode = mode, .size = 48, .resize = 56}; }

TEST(ImageAugmenter, CutsBeforeResizing) {
  const auto jpeg = encode_jpeg(draw_image(100, 80));
  const Image whole = decode_image(jpeg);
  ImageAugmenter augmenter(small(CropMode::kRandomResized), {}, PixelLayout::kNchw);
  Resizer resizer;
  Image expected;
  for (int i = 0; i < 30; ++i) {
    AugmentChoices choices;
    const Image& image = augmenter.augment(jpeg, 5, 1, i, choices);
    if (choices.crop.box.width >= 96) continue;  // decoded at half its size
    resizer.resize(whole, choices.crop.box, choices.crop.readable, 48, 48, choices.crop.flip, expected);
    EXPECT_EQ(image.pixels, expected.pixels);
  }
}

TEST(ImageAugmenter, CenterEqualsResizingEverythingThenCutting) {
  for (const auto& [width, height] : {std::pair(100, 80), {57, 91}, {56, 56}, {30, 40}}) {
    const auto jpeg = encode_jpeg(draw_image(width, height));
    const int resized_width = width <= height ? 56 : 56 * width / height;
    const int resized_height = width <= height ? 56 * height / width : 56;
    Image resized;
    Resizer().resize(decode_image(jpeg), {0, 0, double(width), double(height)}, {0, 0, width, height}, resized_width,
                     resized_height, false, resized);
    AugmentChoices choices;
    ImageAugmenter augmenter(small(CropMode::kCenter), {}, PixelLayout::kNchw);
    const Image& image = augmenter.augment(jpeg, 0, 0, 0, choices);
    for (int y = 0; y < 48; ++y) {
      const auto* row = resized.row(choices.crop.in_resized.y + y) + 3 * choices.crop.in_resized.x;
      for (int i = 0; i < 3 * 48; ++i) EXPECT_NEAR(image.row(y)[i], row[i], 1) << width << "x" << height;
    }
  }
}

TEST(ImageAugmenter, ReducedDecodingStaysClose) {
  const auto jpeg = encode_jpeg(draw_image(500, 400), {.quality = 95});
  ImageAugmenter augmenter(small(CropMode::kCenter), {}, PixelLayout::kNchw);
  AugmentChoices choices;
  const Image& image = augmenter.augment(jpeg, 0, 0, 0, choices);
  Image expected;
  Resizer().resize(decode_image(jpeg), choices.crop.box, choices.crop.readable, 48, 48, false, expected);
  double sum = 0;
  for (std::size_t i = 0; i < expected.pixels.size(); ++i) sum += std::abs(image.pixels[i] - expected.pixels[i]);
  EXPECT_LT(sum / static_cast<double>(expected.pixels.size()), 2);
}

TEST(ImageAugmenter, NormalizesInBothLayouts) {
  const auto jpeg = encode_jpeg(draw_image(100, 80));
  const CropOptions options = small(CropMode::kRandomResized);
  const Normalization normalization = {.mean = {0.5F, 0.25F, 0.125F}, .stddev = {0.25F, 0.5F, 1.0F}};
  ImageAugmenter planes(options, normalization, PixelLayout::kNchw);
  ImageAugmenter pixels(options, normalization, PixelLayout::kNhwc);
  std::vector<float> nchw(3 * 48 * 48);
  std::vector<float> nhwc(3 * 48 * 48);
  planes(jpeg, 1, 2, 3, nchw);
  pixels(jpeg, 1, 2, 3, nhwc);
  AugmentChoices choices;
  const Image& image = planes.augment(jpeg, 1, 2, 3, choices);
  for (int i = 0; i < 48 * 48; ++i) {
    for (int c = 0; c < 3; ++c) {
      const float expected = (image.pixels[3 * i + c] / 255.0F - normalization.mean[c]) / normalization.stddev[c];
      EXPECT_NEAR(nchw[48 * 48 * c + i], expected, 1e-6);
      EXPECT_NEAR(nhwc[3 * i + c], expected, 1e-6);
    }
  }
}

TEST(ImageAugmenter, MeanImageIsTakenOffWhereThePartLies) {
  const auto jpeg = encode_jpeg(draw_image(100, 80));
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
    AugmentChoices choices;
    const Image& image = planes.augment(jpeg, 0, 0, index, choices);
    for (int y = 0; y < 48; ++y) {
      for (int x = 0; x < 48; ++x) {
        for (int c = 0; c < 3; ++c) {
          const int mean = (c * 56 + choices.crop.in_resized.y + y) * 56 + choices.crop.in_resized.x + x;
          const float expected = (image.row(y)[3 * x + c] - static_cast<float>(mean % 251)) / 255.0F;
          EXPECT_FLOAT_EQ(nchw[(c * 48 + y) * 48 + x], expected);
          EXPECT_FLOAT_EQ(nhwc[3 * (y * 48 + x) + c], expected);
        }
      }
    }
  }
}

TEST(ImageAugmenter, ErasesAPartInBothLayouts) {
  const auto jpeg = encode_jpeg(draw_image(100, 80));
  const CropOptions crop = small(CropMode::kRandomResized);
  const Normalization normalization = {.mean = {2, 2, 2}};  // no value becomes 0 by itself
  ImageAugmenter planes(crop, normalization, PixelLayout::kNchw, {.erasing = 1});
  ImageAugmenter pixels(crop, normalization, PixelLayout::kNhwc, {.erasing = 1});
  std::vector<float> nchw(3 * 48 * 48);
  std::vector<float> nhwc(3 * 48 * 48);
  for (int index = 0; index < 5; ++index) {
    planes(jpeg, 1, 2, index, nchw);
    pixels(jpeg, 1, 2, index, nhwc);
    AugmentChoices choices;
    (void)planes.augment(jpeg, 1, 2, index, choices);
    const Region& erased = choices.erased;
    EXPECT_GT(erased.width, 0);
    for (int i = 0; i < 48 * 48; ++i) {
      const int x = i % 48 - erased.x;
      const int y = i / 48 - erased.y;
      const bool inside = x >= 0 && x < erased.width && y >= 0 && y < erased.height;
      for (int c = 0; c < 3; ++c) {
        EXPECT_EQ(nchw[48 * 48 * c + i] == 0, inside);
        EXPECT_EQ(nhwc[3 * i + c] == 0, inside);
      }
    }
  }
}

TEST(ImageAugmenter, OperationsFollowTheCrop) {
  const auto jpeg = encode_jpeg(draw_image(100, 80));
  const CropOptions crop = small(CropMode::kRandomResized);
  ImageAugmenter plain(crop, {}, PixelLayout::kNchw);
  ImageAugmenter varied(crop, {}, PixelLayout::kNchw, {.randaugment = 2, .jitter = {.brightness = 0.5, .hue = 0.5}});
  ImageOperator apply;
  for (int index = 0; index < 20; ++index) {
    AugmentChoices choices;
    Image expected = plain.augment(jpeg, 1, 2, index, choices);
    const Image& image = varied.augment(jpeg, 1, 2, index, choices);
    EXPECT_EQ(choices.operations.size(), 4u);
    for (const ImageOperation& operation : choices.operations) apply.apply(operation, expected);
    EXPECT_EQ(image.pixels, expected.pixels);
  }
}

TEST(ImageAugmenter, SameBitsOnAnyThreadAndAfterAnyOtherSample) {
  const auto jpeg = encode_jpeg(draw_image(300, 200));
  const auto other = encode_jpeg(draw_image(77, 201), {.progressive = true, .orientation = 6});
  const auto run = [&](bool with_others, std::vector<float>& out) {
    ImageAugmenter augmenter(small(CropMode::kRandomResized), {}, PixelLayout::kNchw,
                             {.randaugment = 2, .jitter = {.contrast = 0.5}, .erasing = 0.5});
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
  const auto make = [](const CropOptions& options, Normalization normalization, const AugmentOptions& augment = {}) {
    ImageAugmenter(options, std::move(normalization), PixelLayout::kNchw, augment);
  };
  for (const AugmentOptions& wrong : {AugmentOptions{.randaugment = -1},
                                      {.magnitude = 31},
                                      {.jitter = {.hue = 0.6}},
                                      {.jitter = {.contrast = -1}},
                                      {.erasing = 1.5}}) {
    EXPECT_THROW(make(small(CropMode::kRandomResized), {}, wrong), ArgumentError);
  }
  EXPECT_THROW(make({.mode = CropMode::kCenter, .size = 64, .resize = 56}, {}), ArgumentError);
  EXPECT_THROW(make(small(CropMode::kRandomFixed), {.mean_image = std::vector<float>(5)}), ArgumentError);
  EXPECT_THROW(make(small(CropMode::kRandomResized), {.mean_image = std::vector<float>(3 * 56 * 56)}), ArgumentError);
  ImageAugmenter augmenter(small(CropMode::kCenter), {}, PixelLayout::kNchw);
  std::vector<float> out(5);
  EXPECT_THROW(augmenter({}, 0, 0, 0, out), ArgumentError);
}

}  // namespace
}  // namespace mn::data

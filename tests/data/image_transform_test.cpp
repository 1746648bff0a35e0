#include <algorithm>
#include <functional>
#include <limits>
#include <thread>
#include <utility>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/torch.h>

#include <mn/core/error.hpp>
#include <mn/data/memory_dataset.hpp>
#include <mn/image/augment.hpp>
#include <mn/loader/image_transform.hpp>
#include <mn/loader/loader.hpp>

#include "data/convert.hpp"
#include "tests/image/jpeg_samples.hpp"
#include "tests/image/png_samples.hpp"
#include "tests/support/resident_bytes.hpp"
#include "tests/support/temporary_folder.hpp"

namespace mn {
namespace {

using data::CropMode;
using data::CropOptions;
using data::PixelLayout;

constexpr CropOptions kCrop = {.mode = CropMode::kRandomResized, .size = 24};

RawSamples samples_of(const std::vector<std::vector<std::byte>>& jpegs) {
  const SampleSpec spec = labeled({.kind = FieldKind::kEncoded});
  RawSamples samples(spec);
  const std::int64_t label = 0;
  for (const auto& jpeg : jpegs) samples.add(spec, {jpeg, std::span(&label, 1)});
  return samples;
}

class ImageTransformTest : public ::testing::Test {
 protected:
  at::Tensor run(const Transform& transform, const std::vector<std::int64_t>& indices) {
    std::vector<std::vector<std::byte>> chosen;
    for (const auto i : indices) chosen.push_back(jpegs_[static_cast<std::size_t>(i)]);
    const RawSamples raw = samples_of(chosen);
    return transform({raw, indices, spec_, 5, 2, {}, for_each_}, damaged_);
  }

  std::vector<std::vector<std::byte>> jpegs_ = {data::encode_jpeg(data::draw_image(60, 40)),
                                                data::encode_jpeg(data::draw_image(40, 70)),
                                                data::encode_jpeg(data::draw_image(33, 33))};
  SampleSpec spec_ = labeled({.kind = FieldKind::kEncoded});
  std::vector<SampleError> damaged_;
  ForEach for_each_ = in_turn;
};

TEST_F(ImageTransformTest, EachImageIsWhatTheAugmenterMakesOfIt) {
  const at::Tensor batch = run(image_transform(kCrop, {}, PixelLayout::kNchw), {2, 0});
  ASSERT_EQ(batch.sizes(), (std::vector<std::int64_t>{2, 3, 24, 24}));
  ASSERT_TRUE(batch.is_contiguous());
  data::ImageAugmenter augmenter(kCrop, {}, PixelLayout::kNchw);
  std::vector<float> expected(3 * 24 * 24);
  augmenter(jpegs_[0], 5, 2, 0, expected);
  EXPECT_TRUE(batch[1].flatten().equal(torch::tensor(expected)));
  EXPECT_TRUE(damaged_.empty());
}

TEST_F(ImageTransformTest, APngUnderAJpegsNameReachesTheNetwork) {
  const auto png = data::make_png({.color = data::PngColor::kPalette, .width = 24, .height = 24});
  const test::TemporaryFolder folder;
  std::filesystem::create_directories(folder.path() / "source/dog");
  test::write_text(folder.path() / "source/dog/n02105855_2933.JPEG",
                   {reinterpret_cast<const char*>(png.bytes.data()), png.bytes.size()});
  data::ImageConvertOptions options;
  options.output = {.out = folder.path() / "out", .split = "train"};
  (void)data::convert_images(folder.path() / "source", options);

  const data::Normalization values = {.mean = {0, 0, 0}, .stddev = {1, 1, 1}};
  DataLoader loader(std::shared_ptr<const Dataset>(open_dataset(folder.path() / "out")),
                    {.transform = image_transform({.mode = CropMode::kCenter, .size = 24, .resize = 24}, values,
                                                  PixelLayout::kNhwc)});
  const auto batch = loader.next();
  ASSERT_TRUE(batch);
  const auto expected = torch::tensor(at::ArrayRef<std::uint8_t>(png.pixels.pixels)).to(torch::kFloat) / 255;
  EXPECT_TRUE(batch->data.permute({0, 2, 3, 1}).flatten().allclose(expected, 0, 1e-6));
}

TEST_F(ImageTransformTest, LayoutsHoldTheSameValues) {
  const at::Tensor planes = run(image_transform(kCrop, {}, PixelLayout::kNchw), {0, 1, 2});
  const at::Tensor pixels = run(image_transform(kCrop, {}, PixelLayout::kNhwc), {0, 1, 2});
  EXPECT_TRUE(pixels.is_contiguous(at::MemoryFormat::ChannelsLast));
  EXPECT_TRUE(planes.allclose(pixels, 1e-6, 1e-6));
}

TEST_F(ImageTransformTest, ASampleDoesNotDependOnItsBatch) {
  const Transform transform = image_transform(kCrop, {}, PixelLayout::kNchw);
  const at::Tensor batch = run(transform, {0, 1, 2});
  EXPECT_TRUE(run(transform, {1})[0].equal(batch[1]));
  EXPECT_TRUE(run(transform, {2, 1})[1].equal(batch[1]));
}

TEST_F(ImageTransformTest, NoSamplesGiveAnEmptyBatch) {
  EXPECT_EQ(run(image_transform(kCrop, {}, PixelLayout::kNhwc), {}).sizes(), (std::vector<std::int64_t>{0, 3, 24, 24}));
}

TEST_F(ImageTransformTest, DamagedSamplesAreListedOnce) {
  jpegs_[1].resize(30);
  const Transform transform = image_transform(kCrop, {}, PixelLayout::kNchw);
  const at::Tensor batch = run(transform, {0, 1, 2});
  ASSERT_EQ(damaged_.size(), 1U);
  EXPECT_EQ(damaged_[0].position, 1);
  EXPECT_THAT(damaged_[0].what, testing::StartsWith("damaged JPEG: "));
  EXPECT_TRUE(batch[1].equal(torch::zeros({3, 24, 24})));
  EXPECT_FALSE(batch[2].equal(torch::zeros({3, 24, 24})));
  (void)run(transform, {0, 1});  // as after a failed read: it is on the list already
  EXPECT_EQ(damaged_.size(), 1U);
}

TEST_F(ImageTransformTest, ThreadsChangeNothing) {
  jpegs_[1].resize(30);
  jpegs_[2].resize(20);
  for (const Transform& transform :
       {image_transform(kCrop, {}, PixelLayout::kNchw),
        image_pipeline(kCrop, {}, PixelLayout::kNchw, {.erasing = 0.5}, Device{DeviceType::kCuda, 0}).transform}) {
    const std::vector<std::int64_t> indices = {2, 0, 1, 0, 0, 2, 1, 0};
    const at::Tensor expected = run(transform, indices);
    const std::vector<SampleError> damaged = std::exchange(damaged_, {});
    for_each_ = [](std::int64_t n, const std::function<void(std::int64_t)>& task) {
      std::vector<std::jthread> threads;
      for (std::int64_t i = n; i-- > 0;) threads.emplace_back([&task, i] { task(i); });
    };
    EXPECT_TRUE(run(transform, indices).equal(expected));
    ASSERT_EQ(damaged_.size(), 4U);
    for (std::size_t i = 0; i < 4; ++i) EXPECT_EQ(damaged_[i].position, damaged[i].position);
    damaged_.clear();
    for_each_ = in_turn;
  }
}

/// What a loader on a GPU does, here with tensors on the CPU.
TEST_F(ImageTransformTest, BytesThatAreNormalizedOnTheDeviceGiveTheSameValues) {
  const data::Normalization values = {.mean = {0.1F, 0.2F, 0.3F}, .stddev = {0.5F, 0.25F, 0.125F}};
  for (const auto layout : {PixelLayout::kNchw, PixelLayout::kNhwc}) {
    for (const double erasing : {0.0, 1.0}) {
      const data::AugmentOptions augment = {.jitter = {.brightness = 0.4}, .erasing = erasing};
      const at::Tensor expected = run(image_transform(kCrop, values, layout, augment), {0, 1, 2});
      const auto pipeline = image_pipeline(kCrop, values, layout, augment, {DeviceType::kCuda, 0});
      std::vector<BatchField> fields = {{.name = "image", .values = run(pipeline.transform, {0, 1, 2})}};
      EXPECT_EQ(fields[0].values.scalar_type(), at::kByte);
      EXPECT_EQ(fields[0].values.size(3), erasing > 0 ? 4 : 3);
      pipeline.on_device(fields);
      EXPECT_EQ(fields[0].values.strides(), expected.strides());
      EXPECT_TRUE(fields[0].values.allclose(expected, 1e-6, 1e-6));
      EXPECT_EQ((expected == 0).any().item<bool>(), erasing > 0);
    }
  }
}

TEST_F(ImageTransformTest, OnTheCpuAndForAMeanImageFloatsAreMadeAtOnce) {
  EXPECT_FALSE(image_pipeline(kCrop, {}, PixelLayout::kNchw, {}, {}).on_device);
  const CropOptions fixed = {.mode = CropMode::kCenterFixed, .size = 8, .resize = 8};
  const data::Normalization mean = {.mean_image = std::vector<float>(3 * 8 * 8)};
  EXPECT_FALSE(image_pipeline(fixed, mean, PixelLayout::kNchw, {}, {DeviceType::kCuda, 0}).on_device);
}

TEST_F(ImageTransformTest, ALoaderHandsOutWhatOnDeviceMakes) {
  const auto dataset = std::make_shared<MemoryDataset>(spec_, samples_of(jpegs_));
  const auto pipeline = image_pipeline(kCrop, {}, PixelLayout::kNchw, {}, {DeviceType::kCuda, 0});
  DataLoader loader(std::shared_ptr<const Dataset>(dataset),
                    {.batchsize = 3, .transform = pipeline.transform, .on_device = pipeline.on_device});
  const auto batch = loader.next();
  ASSERT_TRUE(batch);
  EXPECT_EQ(batch->data.scalar_type(), at::kFloat);
  EXPECT_EQ(batch->data.sizes(), (std::vector<std::int64_t>{3, 3, 24, 24}));
  EXPECT_TRUE(batch->data.is_same(batch->fields[0].values));
}

TEST_F(ImageTransformTest, ContradictingOptionsAreErrors) {
  EXPECT_THROW((void)image_transform({.mode = CropMode::kCenter, .size = 64, .resize = 32}, {}, PixelLayout::kNchw),
               ArgumentError);
}

TEST_F(ImageTransformTest, LoadingKeepsMemoryFlatOverEpochs) {
  const auto jpeg = data::encode_jpeg(data::draw_image(320, 240));
  const auto dataset = std::make_shared<MemoryDataset>(spec_, samples_of(std::vector(64, jpeg)));
  DataLoader loader(
      std::shared_ptr<const Dataset>(dataset),
      {.batchsize = 8,
       .workers = 3,
       .prefetch = 3,
       .transform = image_transform({.mode = CropMode::kRandomResized, .size = 96}, {}, PixelLayout::kNchw)});
  const auto read_epoch = [&] {
    while (loader.next()) {
    }
  };
  // A thread's allocator takes more memory when the thread first holds more batches: on a busy machine late in some
  // windows, but not in all. A leak shows in each.
  std::int64_t least_growth = std::numeric_limits<std::int64_t>::max();
  for (int window = 0; window < 6; ++window) {
    const std::int64_t before = test::resident_bytes();
    for (int epoch = 0; epoch < 8; ++epoch) read_epoch();  // 7 MB of batches each
    least_growth = std::min(least_growth, test::resident_bytes() - before);
  }
  EXPECT_LE(least_growth, 4 << 20);
}

}  // namespace
}  // namespace mn

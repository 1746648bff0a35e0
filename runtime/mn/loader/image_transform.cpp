#include <mn/loader/image_transform.hpp>

#include <algorithm>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <utility>

#include <ATen/core/Tensor.h>
#include <ATen/ops/empty.h>

#include <mn/core/error.hpp>
#include <mn/image/augment.hpp>

namespace mn {
namespace {

using MakeAugmenter = std::function<std::unique_ptr<data::ImageAugmenter>()>;

/// Calls make(augmenter, encoded, index, room) for each sample. `room` is the sample's part of `out`, `values` elements
/// long. If a sample cannot be decoded, fills its part with zeros, and adds the sample to `damaged`, in order.
template <class Value, class Make>
void for_each_image(const RawBatch& batch, std::vector<SampleError>& damaged, const MakeAugmenter& make_augmenter,
                    std::size_t values, Value* out, const Make& make) {
  std::mutex mutex;
  std::map<std::int64_t, std::string> failed;
  // Augmenters of finished images, to be used again, because an augmenter owns memory.
  std::vector<std::unique_ptr<data::ImageAugmenter>> spare;
  batch.for_each(batch.samples.size(), [&](std::int64_t i) {
    const std::span room(out + static_cast<std::size_t>(i) * values, values);
    std::unique_lock lock(mutex);
    if (spare.empty()) spare.push_back(make_augmenter());
    auto augmenter = std::move(spare.back());
    spare.pop_back();
    lock.unlock();
    std::string error;
    try {
      make(*augmenter, batch.samples.sample(0, i), batch.indices[i], room);
    } catch (const DataError& thrown) {
      error = thrown.what();
      std::fill(room.begin(), room.end(), Value{});
    }
    lock.lock();
    spare.push_back(std::move(augmenter));
    if (error.empty()) return;
    // The sample is in the list already if it could not be read.
    const bool is_listed = std::ranges::find(damaged, i, &SampleError::position) != damaged.end();
    if (!is_listed) failed[i] = error;
  });
  for (const auto& [position, what] : failed) damaged.push_back({position, what});
}

constexpr std::int64_t kErasedChannel = 3;  // channel of bytes_transform()'s result: 1 if the pixel is erased

/// Makes bytes: RGB images {N, size, size, 3}. For random erasing, there is a fourth channel, kErasedChannel.
Transform bytes_transform(const data::CropOptions& crop, const data::AugmentOptions& augment) {
  return [=](const RawBatch& batch, std::vector<SampleError>& damaged) {
    const auto make_augmenter = [&] {
      return std::make_unique<data::ImageAugmenter>(crop, data::Normalization(), data::PixelLayout::kNhwc, augment);
    };
    const std::int64_t channels = augment.erasing > 0 ? kErasedChannel + 1 : 3;
    at::Tensor result =
        at::empty({batch.samples.size(), crop.size, crop.size, channels}, batch.memory.dtype(at::kByte));
    const auto size = static_cast<std::size_t>(crop.size);
    const auto values = size * size * static_cast<std::size_t>(channels);
    for_each_image(batch, damaged, make_augmenter, values, result.data_ptr<std::uint8_t>(),
                   [&](data::ImageAugmenter& augmenter, std::span<const std::byte> encoded, std::int64_t index,
                       std::span<std::uint8_t> room) {
                     data::AugmentChoices choices;
                     const data::Image& image = augmenter.augment(encoded, batch.seed, batch.epoch, index, choices);
                     if (channels == 3) {
                       std::copy(image.pixels.begin(), image.pixels.end(), room.begin());
                       return;
                     }
                     for (std::size_t pixel = 0; pixel < size * size; ++pixel) {
                       std::copy_n(&image.pixels[3 * pixel], 3, &room[4 * pixel]);
                       room[4 * pixel + kErasedChannel] = data::contains(choices.erased, static_cast<int>(pixel % size),
                                                                         static_cast<int>(pixel / size));
                     }
                   });
    return result;
  };
}

/// Converts the result of bytes_transform() to normalized float32 {N, 3, size, size}, on the device of `bytes`.
at::Tensor normalize_bytes(const at::Tensor& bytes, const data::Normalization& normalization,
                           data::PixelLayout layout) {
  const at::Tensor planes = bytes.permute({0, 3, 1, 2});
  at::Tensor result = planes.narrow(1, 0, 3).to(
      at::kFloat, false, true,
      layout == data::PixelLayout::kNchw ? at::MemoryFormat::Contiguous : at::MemoryFormat::ChannelsLast);
  // Each channel separately, with mean and stddev as numbers: a tensor of them would have to be copied to the GPU.
  for (std::int64_t c = 0; c < 3; ++c) {
    const auto k = static_cast<std::size_t>(c);
    const float stddev = normalization.stddev[k];
    result.select(1, c).mul_(1 / (255 * stddev)).add_(-normalization.mean[k] / stddev);
  }
  if (planes.size(1) > kErasedChannel) {
    result.masked_fill_(planes.narrow(1, kErasedChannel, 1).to(at::kBool), 0);
  }
  return result;
}

}  // namespace

Transform image_transform(const data::CropOptions& crop, const data::Normalization& normalization,
                          data::PixelLayout layout, const data::AugmentOptions& augment) {
  (void)data::ImageAugmenter(crop, normalization, layout, augment);  // throws if the options are wrong
  return [=](const RawBatch& batch, std::vector<SampleError>& damaged) {
    const auto make_augmenter = [&] {
      return std::make_unique<data::ImageAugmenter>(crop, normalization, layout, augment);
    };
    const bool planes = layout == data::PixelLayout::kNchw;
    at::Tensor result = at::empty({batch.samples.size(), 3, crop.size, crop.size}, batch.memory.dtype(at::kFloat),
                                  planes ? at::MemoryFormat::Contiguous : at::MemoryFormat::ChannelsLast);
    for_each_image(batch, damaged, make_augmenter, std::size_t{3} * crop.size * crop.size, result.data_ptr<float>(),
                   [&](data::ImageAugmenter& augmenter, std::span<const std::byte> encoded, std::int64_t index,
                       std::span<float> room) { augmenter(encoded, batch.seed, batch.epoch, index, room); });
    return result;
  };
}

ImagePipeline image_pipeline(const data::CropOptions& crop, const data::Normalization& normalization,
                             data::PixelLayout layout, const data::AugmentOptions& augment, Device device) {
  Transform floats = image_transform(crop, normalization, layout, augment);
  if (device.type == DeviceType::kCpu || !normalization.mean_image.empty()) return {std::move(floats)};
  return {bytes_transform(crop, augment), [=](std::vector<BatchField>& fields) {
            fields.at(0).values = normalize_bytes(fields.at(0).values, normalization, layout);
          }};
}

}  // namespace mn

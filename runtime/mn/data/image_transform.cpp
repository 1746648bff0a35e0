#include <algorithm>

#include <ATen/core/Tensor.h>
#include <ATen/ops/empty.h>

#include <mn/core/error.hpp>
#include <mn/data/image_transform.hpp>
#include <mn/image/augment.hpp>

namespace mn {
namespace {

/// Reading it failed, and says so already.
bool is_listed(const std::vector<SampleError>& damaged, std::int64_t position) {
  return std::any_of(damaged.begin(), damaged.end(), [&](const auto& error) { return error.position == position; });
}

}  // namespace

Transform image_transform(const data::CropOptions& crop, const data::Normalization& normalization,
                          data::PixelLayout layout, const data::AugmentOptions& augment) {
  (void)data::ImageAugmenter(crop, normalization, layout, augment);  // says now what is wrong with the options
  return [=](const RawBatch& batch, std::vector<SampleError>& damaged) {
    data::ImageAugmenter augmenter(crop, normalization, layout, augment);
    const std::int64_t n = batch.samples.size();
    const std::int64_t values = std::int64_t{3} * crop.size * crop.size;
    const bool planes = layout == data::PixelLayout::kNchw;
    at::Tensor result = at::empty({n, 3, crop.size, crop.size}, batch.memory.dtype(at::kFloat),
                                  planes ? at::MemoryFormat::Contiguous : at::MemoryFormat::ChannelsLast);
    float* out = result.data_ptr<float>();
    for (std::int64_t i = 0; i < n; ++i, out += values) {
      const std::span room(out, static_cast<std::size_t>(values));
      try {
        augmenter(batch.samples.sample(0, i), batch.seed, batch.epoch, batch.indices[i], room);
      } catch (const DataError& error) {
        std::fill(room.begin(), room.end(), 0.0F);
        if (is_listed(damaged, i)) continue;
        damaged.push_back({i, error.what()});
      }
    }
    return result;
  };
}

}  // namespace mn

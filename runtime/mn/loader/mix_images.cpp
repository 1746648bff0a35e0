#include <mn/loader/mix_images.hpp>

#include <vector>

#include <ATen/Parallel.h>
#include <ATen/TensorOperators.h>
#include <ATen/ops/arange.h>
#include <ATen/ops/empty_like.h>
#include <ATen/ops/lerp.h>
#include <ATen/ops/roll.h>
#include <ATen/ops/tensor.h>
#include <ATen/ops/zeros.h>

namespace mn {
namespace {

/// The numbers by which mixup and CutMix mix images, as a tensor {N, 5} on the device. Each row has left, top, right
/// and bottom of the rectangle that CutMix pastes, and the weight of the image itself in mixup, which is 1 without
/// mixup.
at::Tensor numbers_of(std::span<const data::Mix> mixes, const at::Device& device) {
  std::vector<float> numbers;
  for (const data::Mix& mix : mixes) {
    const data::Region& part = mix.pasted;
    const bool blended = part.width <= 0 || part.height <= 0;
    const auto add = [&](double number) { numbers.push_back(static_cast<float>(number)); };
    add(part.x);
    add(part.y);
    add(part.x + (blended ? 0 : part.width));
    add(part.y + (blended ? 0 : part.height));
    add(blended ? mix.share : 1);
  }
  return at::tensor(numbers).view({-1, 5}).to(device);
}

at::Tensor partners_of(const at::Tensor& values) {
  return at::roll(values, -data::partner_distance(values.size(0)), 0);
}

}  // namespace

at::Tensor mix_images_by_operators(const at::Tensor& images, std::span<const data::Mix> mixes) {
  const at::Tensor numbers = numbers_of(mixes, images.device());
  const auto column = [&](int i) { return numbers.select(1, i).view({-1, 1, 1, 1}); };
  const at::Tensor x = at::arange(images.size(3), numbers.options());
  const at::Tensor y = at::arange(images.size(2), numbers.options()).view({-1, 1});
  const at::Tensor pasted = (x >= column(0)) & (x < column(2)) & (y >= column(1)) & (y < column(3));
  const at::Tensor weight = column(4) * pasted.logical_not().to(at::kFloat);  // {N, 1, H, W}
  return at::lerp(partners_of(images), images, weight);
}

at::Tensor mix_images(const at::Tensor& images, std::span<const data::Mix> mixes) {
  if (!images.device().is_cpu()) return mix_images_by_operators(images, mixes);
  const bool pixels = !images.is_contiguous() && images.is_contiguous(at::MemoryFormat::ChannelsLast);
  const at::Tensor from = pixels ? images : images.contiguous();
  at::Tensor result = at::empty_like(from);
  const data::FloatShape shape = {static_cast<int>(from.size(3)), static_cast<int>(from.size(2)),
                                  pixels ? data::PixelLayout::kNhwc : data::PixelLayout::kNchw};
  const std::int64_t n = from.size(0);
  const std::int64_t values = n > 0 ? from.numel() / n : 0;
  const auto* in = from.const_data_ptr<float>();
  auto* out = result.mutable_data_ptr<float>();
  at::parallel_for(0, n, 1, [&](std::int64_t first, std::int64_t last) {
    for (std::int64_t i = first; i < last; ++i) {
      const std::int64_t partner = (i + data::partner_distance(n)) % n;
      data::mix_image(mixes[i], shape, in + i * values, in + partner * values, out + i * values);
    }
  });
  return result;
}

at::Tensor mix_labels(const at::Tensor& labels, std::span<const data::Mix> mixes, std::int64_t num_classes) {
  std::vector<float> numbers;
  for (const data::Mix& mix : mixes) numbers.push_back(static_cast<float>(mix.share));
  const at::Tensor share = at::tensor(numbers).view({-1, 1}).to(labels.device());
  at::Tensor target = at::zeros({labels.size(0), num_classes}, share.options());
  target.scatter_add_(1, labels.unsqueeze(1), share);
  target.scatter_add_(1, partners_of(labels).unsqueeze(1), 1 - share);
  return target;
}

}  // namespace mn

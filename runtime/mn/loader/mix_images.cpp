#include <mn/loader/mix_images.hpp>

#include <vector>

#include <ATen/TensorOperators.h>
#include <ATen/ops/arange.h>
#include <ATen/ops/roll.h>
#include <ATen/ops/tensor.h>
#include <ATen/ops/where.h>
#include <ATen/ops/zeros.h>

namespace mn {
namespace {

/// Makes a tensor {N, 6} on the device. A row has left, top, right and bottom of the rectangle that CutMix pastes, then
/// the weights of the image itself and of its partner in mixup, which are 1 and 0 without mixup.
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
    add(blended ? 1 - mix.share : 0);
  }
  return at::tensor(numbers).view({-1, 6}).to(device);
}

at::Tensor partners_of(const at::Tensor& values) {
  return at::roll(values, -data::partner_distance(values.size(0)), 0);
}

}  // namespace

at::Tensor mix_images(const at::Tensor& images, std::span<const data::Mix> mixes) {
  const at::Tensor numbers = numbers_of(mixes, images.device());
  const auto column = [&](int i) { return numbers.select(1, i).view({-1, 1, 1, 1}); };
  const at::Tensor x = at::arange(images.size(3), numbers.options());
  const at::Tensor y = at::arange(images.size(2), numbers.options()).view({-1, 1});
  const at::Tensor pasted = (x >= column(0)) & (x < column(2)) & (y >= column(1)) & (y < column(3));
  const at::Tensor own = at::where(pasted, 0, column(4));  // {N, 1, H, W}
  const at::Tensor rest = at::where(pasted, 1, column(5));
  return (images * own).add_(partners_of(images).mul_(rest));
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

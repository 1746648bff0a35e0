/// Mixes tensors of images and labels by mixup and CutMix.
#pragma once

#include <span>

#include <ATen/core/Tensor.h>

#include <mn/image/mix.hpp>

namespace mn {

/// Mixes each image with a partner: sample i of the result is images[i], mixed by mixes[i] with images[(i +
/// partner_distance(N)) mod N]. Images are float32 (N, 3, H, W), contiguous or with channels_last strides. The result
/// has the same strides.
[[nodiscard]] at::Tensor mix_images(const at::Tensor& images, std::span<const data::Mix> mixes);

/// Turns labels, int64 {N}, into float32 {N, num_classes}. A row has the share of the sample's own label and the share
/// of its partner's label.
[[nodiscard]] at::Tensor mix_labels(const at::Tensor& labels, std::span<const data::Mix> mixes,
                                    std::int64_t num_classes);

}  // namespace mn

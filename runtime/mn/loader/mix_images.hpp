/// Mixes tensors of images and labels by mixup and CutMix.
#pragma once

#include <span>

#include <ATen/core/Tensor.h>

#include <mn/image/mix.hpp>

namespace mn {

/// Mixes images[i] by mixes[i] with its partner, images[(i + partner_distance(N)) mod N]. Images are float32 (N, 3, H,
/// W), contiguous or with channels_last strides. The result has the same strides.
[[nodiscard]] at::Tensor mix_images(const at::Tensor& images, std::span<const data::Mix> mixes);

/// Turns labels, int64 {N}, into the shares of the sample's and its partner's labels, float32 {N, num_classes}.
[[nodiscard]] at::Tensor mix_labels(const at::Tensor& labels, std::span<const data::Mix> mixes,
                                    std::int64_t num_classes);

}  // namespace mn

/// Mixup and CutMix of tensors.
#pragma once

#include <span>

#include <ATen/core/Tensor.h>

#include <mn/image/mix.hpp>

namespace mn {

/// Sample i of the result is images[i], mixed as mixes[i] says with images[(i + partner_distance(N)) mod N]. Images are
/// float32 (N, 3, H, W), contiguous or with channels_last strides, which the result has too.
[[nodiscard]] at::Tensor mix_images(const at::Tensor& images, std::span<const data::Mix> mixes);

/// mix_images() by libtorch's operators, for any device; mix_images() uses it on a GPU.
[[nodiscard]] at::Tensor mix_images_by_operators(const at::Tensor& images, std::span<const data::Mix> mixes);

/// {N, num_classes} float32, from labels {N} int64: each sample's own label and its partner's, by their shares.
[[nodiscard]] at::Tensor mix_labels(const at::Tensor& labels, std::span<const data::Mix> mixes,
                                    std::int64_t num_classes);

}  // namespace mn

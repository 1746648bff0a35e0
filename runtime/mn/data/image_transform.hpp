/// Encoded images as batches of float images.
#pragma once

#include <mn/data/loader.hpp>
#include <mn/image/augment_options.hpp>

namespace mn {

/// A LoaderOptions::transform whose first field is an encoded image: float32 (N, 3, size, size), contiguous for kNchw,
/// with channels_last strides for kNhwc. Augmentation depends on (seed, epoch, sample) alone. Throws ArgumentError if
/// the options contradict each other.
[[nodiscard]] Transform image_transform(const data::CropOptions& crop, const data::Normalization& normalization,
                                        data::PixelLayout layout, const data::AugmentOptions& augment = {});

}  // namespace mn

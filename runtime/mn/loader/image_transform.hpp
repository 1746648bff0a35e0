/// Encoded images as batches of float images.
#pragma once

#include <mn/image/augment_options.hpp>
#include <mn/loader/loader_options.hpp>

namespace mn {

/// A LoaderOptions::transform whose first field is an encoded image: float32 (N, 3, size, size), contiguous for kNchw,
/// with channels_last strides for kNhwc. Augmentation depends on (seed, epoch, sample) alone. Throws ArgumentError if
/// the options contradict each other.
[[nodiscard]] Transform image_transform(const data::CropOptions& crop, const data::Normalization& normalization,
                                        data::PixelLayout layout, const data::AugmentOptions& augment = {});

/// Two members of LoaderOptions that together do the work of image_transform().
struct ImagePipeline {
  Transform transform;      ///< to what travels
  OnDevice on_device = {};  ///< from there to float32
};

/// A pipeline for a loader's device. A GPU gets bytes, a quarter of the floats' size, and normalizes and erases there;
/// the values equal image_transform()'s to float32's rounding. On the CPU, and with a mean image, the pipeline is
/// image_transform(). Throws as image_transform() does.
[[nodiscard]] ImagePipeline image_pipeline(const data::CropOptions& crop, const data::Normalization& normalization,
                                           data::PixelLayout layout, const data::AugmentOptions& augment,
                                           Device device);

}  // namespace mn

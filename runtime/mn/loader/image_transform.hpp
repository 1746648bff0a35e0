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

/// Two members of LoaderOptions that do together what image_transform() does alone.
struct ImagePipeline {
  Transform transform;      ///< to what travels
  OnDevice on_device = {};  ///< from there to float32
};

/// For a loader of this device. To a GPU travel bytes, a quarter of the floats, and the GPU normalizes and erases them;
/// the values are those of image_transform() to float32's rounding. For the CPU, and where a mean image is subtracted,
/// the pipeline is image_transform(). Throws likewise.
[[nodiscard]] ImagePipeline image_pipeline(const data::CropOptions& crop, const data::Normalization& normalization,
                                           data::PixelLayout layout, const data::AugmentOptions& augment,
                                           Device device);

}  // namespace mn

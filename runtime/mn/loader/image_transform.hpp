/// Transforms that make batches of float images from encoded images.
#pragma once

#include <mn/image/augment_options.hpp>
#include <mn/loader/loader_options.hpp>

namespace mn {

/// A LoaderOptions::transform for datasets with an encoded image as first field. The images become float32 (N, 3, size,
/// size): contiguous with kNchw, with channels_last strides with kNhwc. Augmentation depends on seed, epoch and sample
/// alone. Throws ArgumentError if the options contradict each other.
[[nodiscard]] Transform image_transform(const data::CropOptions& crop, const data::Normalization& normalization,
                                        data::PixelLayout layout, const data::AugmentOptions& augment = {});

/// Two members of LoaderOptions that together do the work of image_transform().
struct ImagePipeline {
  Transform transform;      ///< on the CPU: from encoded images to the tensors that are copied to the device
  OnDevice on_device = {};  ///< on the device: from the copied tensors to float32
};

/// A pipeline for the loader's device. If the device is a GPU, the pipeline copies the images as bytes, a quarter of
/// the size of floats, and normalizes and erases on the GPU. The values differ from image_transform()'s by float32
/// rounding only. If the device is the CPU, or if `normalization` has a mean image, the pipeline is image_transform().
/// Throws as image_transform() does.
[[nodiscard]] ImagePipeline image_pipeline(const data::CropOptions& crop, const data::Normalization& normalization,
                                           data::PixelLayout layout, const data::AugmentOptions& augment,
                                           Device device);

}  // namespace mn

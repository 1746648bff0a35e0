/// Transforms that decode, augment and normalize images, and make batches of float images from them.
#pragma once

#include <mn/image/augment_options.hpp>
#include <mn/loader/loader_options.hpp>

namespace mn {

/// Makes a value of LoaderOptions::transform for a dataset whose first field is an encoded image. The images become
/// float32 (N, 3, size, size). With kNchw the tensor is contiguous; with kNhwc it has channels_last strides.
/// Augmentation depends on seed, epoch and sample alone. Throws ArgumentError if the options contradict each other.
[[nodiscard]] Transform image_transform(const data::CropOptions& crop, const data::Normalization& normalization,
                                        data::PixelLayout layout, const data::AugmentOptions& augment = {});

/// Values for two members of LoaderOptions. Together they do what image_transform() does.
struct ImagePipeline {
  Transform transform;      ///< on the CPU: from encoded images to the tensors that are copied to the device
  OnDevice on_device = {};  ///< on the device: from the copied tensors to float32
};

/// Makes the pipeline for a loader's device. On a GPU, images are copied as bytes, a quarter of the size of floats, and
/// the GPU normalizes and erases. The results differ from image_transform()'s only by float32 rounding. On the CPU, or
/// if `normalization` has a mean image, it is image_transform() alone. Throws as image_transform() does.
[[nodiscard]] ImagePipeline image_pipeline(const data::CropOptions& crop, const data::Normalization& normalization,
                                           data::PixelLayout layout, const data::AugmentOptions& augment,
                                           Device device);

}  // namespace mn

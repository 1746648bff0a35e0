/// GoogLeNet (Szegedy et al. 2014, arXiv:1409.4842), as published and with batch normalization.
#pragma once

#include <cstdint>
#include <memory>

#include <mn/models/classifier.hpp>

namespace mn::models {

/// As published: biases, local response normalization, 5×5 convolutions, two auxiliary classifiers.
[[nodiscard]] std::shared_ptr<Classifier> create_googlenet(std::int64_t num_classes);

/// Batch normalization after each convolution (Ioffe and Szegedy 2015, arXiv:1502.03167), and 3×3 convolutions in place
/// of 5×5: torchvision's GoogLeNet, whose weights can be loaded.
[[nodiscard]] std::shared_ptr<Classifier> create_googlenetbn(std::int64_t num_classes);

}  // namespace mn::models

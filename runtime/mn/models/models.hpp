/// The networks by name.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include <mn/models/classifier.hpp>

namespace mn::models {

/// The names that create_model() takes.
[[nodiscard]] std::vector<std::string> model_names();

/// Makes the network on the CPU, initialized from libtorch's random numbers. Throws UsageError that lists the names if
/// `name` is unknown.
[[nodiscard]] std::shared_ptr<Classifier> create_model(const std::string& name, std::int64_t num_classes);

/// Smallest height and width of images that the network can take. Throws as create_model() does.
[[nodiscard]] std::int64_t min_image_size(const std::string& name);

/// Smallest height and width at which a minibatch of one image can train: for smaller images batch normalization would
/// get a single value of a channel, which has no variance. Throws as create_model() does.
[[nodiscard]] std::int64_t min_image_size_alone(const std::string& name);

/// A learning rate for SGD with momentum in steps of 256 samples. Throws as create_model() does.
[[nodiscard]] double sgd_learning_rate(const std::string& name);

}  // namespace mn::models

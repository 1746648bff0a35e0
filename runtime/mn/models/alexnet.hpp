/// AlexNet in one column (Krizhevsky 2014, arXiv:1404.5997).
#pragma once

#include <cstdint>
#include <memory>

#include <mn/models/classifier.hpp>

namespace mn::models {

/// Makes the network on the CPU, initialized from libtorch's random numbers.
[[nodiscard]] std::shared_ptr<Classifier> create_alexnet(std::int64_t num_classes);

}  // namespace mn::models

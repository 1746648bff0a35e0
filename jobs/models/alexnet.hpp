/// AlexNet in one column (Krizhevsky 2014, arXiv:1404.5997).
#pragma once

#include <cstdint>
#include <memory>

#include "models/classifier.hpp"

namespace mn::jobs {

[[nodiscard]] std::shared_ptr<Classifier> create_alexnet(std::int64_t num_classes);

}  // namespace mn::jobs

/// Makes language models from their options.
#pragma once

#include <memory>

#include <mn/models/language_model.hpp>
#include <mn/models/network_options.hpp>

namespace mn::models {

/// Makes the network with random weights. Throws ArgumentError if options contradict each other.
[[nodiscard]] std::shared_ptr<LanguageModel> create_language_model(const NetworkOptions& options);

}  // namespace mn::models

/// Hugging Face's config.json: the networks that it describes.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <variant>

#include <nlohmann/json_fwd.hpp>

#include <mn/models/gpt.hpp>
#include <mn/models/llama.hpp>

namespace mn::models {

/// A language model's options.
using NetworkOptions = std::variant<GptOptions, LlamaOptions>;

/// Makes the network with random weights. Throws ArgumentError if options contradict each other.
[[nodiscard]] std::shared_ptr<LanguageModel> create_language_model(const NetworkOptions& options);

/// Returns the network of a config.json, whose model_type is gpt2, llama, mistral, qwen2 or qwen3. The dropout is 0,
/// whatever the file says. If the file has another model_type, lacks a size, or has a setting that the network does not
/// implement, throws a DataError of one line, which begins with `source` and names the setting.
[[nodiscard]] NetworkOptions network_of_config(const nlohmann::json& config, const std::string& source);

/// Returns the config.json with which transformers makes the same network. bos_token_id and eos_token_id are null.
[[nodiscard]] nlohmann::json config_of(const NetworkOptions& options);

}  // namespace mn::models

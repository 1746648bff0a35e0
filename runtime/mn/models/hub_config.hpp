/// Hugging Face's config.json: the networks that it describes.
#pragma once

#include <string>

#include <nlohmann/json_fwd.hpp>

#include <mn/models/network_options.hpp>

namespace mn::models {

/// Returns the network of a config.json, whose model_type is gpt2, llama, mistral, qwen2 or qwen3. The dropout is 0,
/// whatever the file says. If the file has another model_type, lacks a size, or has a setting that the network does not
/// implement, throws a DataError of one line, which begins with `source` and names the setting.
[[nodiscard]] NetworkOptions network_of_config(const nlohmann::json& config, const std::string& source);

/// Returns the config.json with which transformers makes the same network. bos_token_id and eos_token_id are null.
[[nodiscard]] nlohmann::json config_of(const NetworkOptions& options);

}  // namespace mn::models

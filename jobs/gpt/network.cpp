#include "gpt/network.hpp"

#include <map>

#include <mn/core/error.hpp>
#include <mn/core/json.hpp>
#include <mn/core/text.hpp>

namespace mn::jobs {
namespace {

using models::GptOptions;
using models::LlamaOptions;
using models::NetworkOptions;

using Sizes = std::map<std::string, std::string>;

/// The values of the options that weights fix.
Sizes sizes_of(const NetworkSettings& settings) {
  return {{"network", settings.type},
          {"layers", std::to_string(settings.sizes.layers)},
          {"heads", std::to_string(settings.sizes.heads)},
          {"width", std::to_string(settings.sizes.width)},
          {"kv-heads", std::to_string(settings.kv_heads)},
          {"hidden", std::to_string(settings.hidden)},
          {"experts", std::to_string(settings.sizes.experts)},
          {"experts-per-token", std::to_string(settings.sizes.experts_per_token)}};
}

GptOptions gpt_of_metadata(const Metadata& metadata, const std::string& file, GptOptions network) {
  const auto take = [&](const std::string& name, std::int64_t& size) {
    const auto found = metadata.find(name);
    if (found == metadata.end()) return;
    size = parse_number<std::int64_t>(found->second).value_or(0);
    if (size <= 0 || size > 1 << 20)
      throw DataError(file + ": " + name + " of its network is \"" + found->second + "\"", true);
  };
  take("layers", network.layers);
  take("heads", network.heads);
  take("width", network.width);
  take("context", network.context);
  take("vocabulary", network.vocabulary);
  take("experts", network.experts);
  take("experts-per-token", network.experts_per_token);
  return network;
}

}  // namespace

NetworkOptions network_of_options(const NetworkSettings& given) {
  if (given.type == "gpt2") return given.sizes;
  return LlamaOptions{.layers = given.sizes.layers,
                      .heads = given.sizes.heads,
                      .key_value_heads = given.kv_heads,
                      .width = given.sizes.width,
                      .hidden = given.hidden,
                      .dropout = given.sizes.dropout}
      .resolved();
}

Metadata metadata_of(const NetworkOptions& network, std::int64_t tokens) {
  if (const auto* gpt = std::get_if<GptOptions>(&network)) {
    Metadata metadata = {{"layers", std::to_string(gpt->layers)},
                         {"heads", std::to_string(gpt->heads)},
                         {"width", std::to_string(gpt->width)},
                         {"context", std::to_string(gpt->context)}};
    if (gpt->vocabulary != tokens) metadata["vocabulary"] = std::to_string(gpt->vocabulary);
    if (with_experts(network) != nullptr) {
      metadata["experts"] = std::to_string(gpt->experts);
      metadata["experts-per-token"] = std::to_string(gpt->experts_per_token);
    }
    return metadata;
  }
  // The settings of config.json, but for those with which another run may train the same network.
  nlohmann::json config = models::config_of(network);
  for (const char* name : {"architectures", "attention_dropout", "bos_token_id", "eos_token_id"}) config.erase(name);
  Metadata metadata;
  for (const auto& [name, value] : config.items()) metadata[name] = json_text(value);
  return metadata;
}

NetworkOptions network_of_metadata(const Metadata& metadata, const std::string& file, const NetworkSettings& given) {
  if (!metadata.contains("model_type")) return gpt_of_metadata(metadata, file, given.sizes);
  try {
    nlohmann::json config;
    for (const auto& [name, text] : metadata) {
      if (name != "format") config[name] = parse_json(text, file + ": " + name + " of its network");
    }
    return models::network_of_config(config, file);
  } catch (const DataError& error) {
    throw DataError(error.what(), true);
  }
}

void take_network(NetworkSettings& given, const NetworkOptions& network, const Options& options,
                  const std::string& file) {
  const Sizes own = sizes_of(given);
  std::visit(
      [&](const auto& each) {
        given.sizes.layers = each.layers;
        given.sizes.heads = each.heads;
        given.sizes.width = each.width;
      },
      network);
  const auto* llama = std::get_if<LlamaOptions>(&network);
  const auto* experts = with_experts(network);
  given.type = llama != nullptr ? "llama" : "gpt2";
  given.kv_heads = llama != nullptr ? llama->key_value_heads : 0;
  given.hidden = llama != nullptr ? llama->hidden : 0;
  given.sizes.experts = experts != nullptr ? experts->experts : 0;
  given.sizes.experts_per_token = (experts != nullptr ? *experts : GptOptions()).experts_per_token;
  const Sizes there = sizes_of(given);
  for (const auto& [name, size] : own) {
    if (!options.is_given(name) || size == "0" || size == there.at(name)) continue;
    throw UsageError("--" + name + " " + size + ": " + name + " of the network in " + file + " is " + there.at(name) +
                     "; leave --" + name + " out");
  }
}

void take_samples(NetworkOptions& network, std::int64_t vocabulary, std::int64_t context, const std::string& file) {
  const auto take = [&](std::int64_t& size, std::int64_t wanted, const std::string& what, const std::string& remedy) {
    if (size == 0) size = wanted;
    if (wanted <= size) return;
    throw DataError("the network in " + file + " takes at most " + std::to_string(size) + what + ", but the data has " +
                        std::to_string(wanted) + ": " + remedy,
                    true);
  };
  std::visit(
      [&](auto& each) {
        take(each.vocabulary, vocabulary, " different tokens", "give the vocabulary with which it was trained");
        take(each.context, context, " tokens in a sample", "give `mnshard tokens` a smaller --context");
      },
      network);
}

const GptOptions* with_experts(const NetworkOptions& network) {
  const auto* gpt = std::get_if<GptOptions>(&network);
  return gpt != nullptr && gpt->experts > 0 ? gpt : nullptr;
}

std::int64_t context_of(const NetworkOptions& network) {
  return std::visit([](const auto& each) { return each.context; }, network);
}

}  // namespace mn::jobs

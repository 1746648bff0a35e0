/// The network of jobs/gpt: from the options, or from the weights of --initmodel and --evaluate.
#pragma once

#include <cstdint>
#include <string>

#include <mn/checkpoint/safetensors.hpp>
#include <mn/core/options.hpp>
#include <mn/models/hub_config.hpp>

namespace mn::jobs {

/// The options of the command line that describe the network.
struct NetworkSettings {
  std::string type = "gpt2";  ///< gpt2 or llama
  models::GptOptions sizes;   ///< a llama has the sizes that it shares with a GPT-2
  std::int64_t kv_heads = 0;  ///< heads of keys and values in a llama; 0: as many as heads
  std::int64_t hidden = 0;    ///< width inside a llama's perceptron; 0: LlamaOptions::hidden tells
};

/// The network that the options describe. Throws ArgumentError if they contradict each other.
[[nodiscard]] models::NetworkOptions network_of_options(const NetworkSettings& given);

/// The sizes of the network, for Training::metadata. `tokens` is the number of tokens in the vocabulary.
[[nodiscard]] Metadata metadata_of(const models::NetworkOptions& network, std::int64_t tokens);
/// The network whose sizes are in `metadata`, from the file `file`. If a size is absent, takes the size of the options.
/// Throws DataError on all ranks if a size is not valid.
[[nodiscard]] models::NetworkOptions network_of_metadata(const Metadata& metadata, const std::string& file,
                                                         const NetworkSettings& given);

/// Sets the options that weights fix to those of `network`, from the weights `file`. Throws UsageError if the command
/// line gives such an option another value.
void take_network(NetworkSettings& given, const models::NetworkOptions& network, const Options& options,
                  const std::string& file);

/// Sets vocabulary and context of a network to those of the samples, if the network has none. Throws DataError on all
/// ranks if the samples have more tokens than the network, from the weights `file`, can take.
void take_samples(models::NetworkOptions& network, std::int64_t vocabulary, std::int64_t context,
                  const std::string& file);

/// The options of a network with experts; null if it has none.
[[nodiscard]] const models::GptOptions* with_experts(const models::NetworkOptions& network);

/// The most tokens of an input; 0: unknown.
[[nodiscard]] std::int64_t context_of(const models::NetworkOptions& network);

}  // namespace mn::jobs

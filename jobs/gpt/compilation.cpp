#include "gpt/compilation.hpp"

#include <string>
#include <variant>

#include <torch/torch.h>

#include <mn/app/compile.hpp>
#include <mn/core/error.hpp>
#include <mn/core/json.hpp>

namespace mn::jobs {
namespace {

nlohmann::json sizes_of(const models::GptOptions& network) {
  return {{"positions", network.context}, {"vocabulary", network.vocabulary}, {"layers", network.layers},
          {"heads", network.heads},       {"width", network.width},           {"dropout", network.dropout}};
}

nlohmann::json sizes_of(const models::LlamaOptions& given) {
  const models::LlamaOptions network = given.resolved();
  const models::RotaryOptions& rotary = network.rotary;
  constexpr const char* kScalings[] = {"none", "linear", "llama3"};
  return {{"vocabulary", network.vocabulary},
          {"layers", network.layers},
          {"heads", network.heads},
          {"key_value_heads", network.key_value_heads},
          {"head_width", network.head_width},
          {"width", network.width},
          {"hidden", network.hidden},
          {"dropout", network.dropout},
          {"eps", network.eps},
          {"rotary",
           {{"base", rotary.base},
            {"scaling", kScalings[static_cast<std::size_t>(rotary.scaling)]},
            {"factor", rotary.factor},
            {"low", rotary.low},
            {"high", rotary.high},
            {"original_context", rotary.original_context}}},
          {"tied", network.tied},
          {"query_bias", network.query_bias},
          {"output_bias", network.output_bias},
          {"perceptron_bias", network.perceptron_bias},
          {"normalizes_heads", network.normalizes_heads},
          {"window", network.window},
          {"first_windowed", network.first_windowed}};
}

}  // namespace

void check_compilation(const GptSettings& given, const models::NetworkOptions& network, bool is_packed) {
  if (given.compile.empty()) return;
  const std::string excluded = with_experts(network) != nullptr ? "--experts"
                               : given.loss.recompute           ? "--recompute"
                               : given.lora.is_on()             ? "--lora"
                               : is_packed                      ? "packed samples (mnshard tokens --pack)"
                                                                : "";
  if (!excluded.empty()) throw UsageError("--compile does not work with " + excluded);
}

void compile_network(models::LanguageModel& model, const GptSettings& given, const models::NetworkOptions& network,
                     std::int64_t context, const std::shared_ptr<Communicator>& comm) {
  app::NetworkSizes sizes{std::holds_alternative<models::GptOptions>(network) ? "gpt" : "llama",
                          std::visit([](const auto& each) { return sizes_of(each); }, network)};
  sizes.sizes.update({{"batch", given.batchsize}, {"context", context}});
  model.set_training_forward(app::compile_network(given.compile, given, sizes, model, comm));
}

}  // namespace mn::jobs

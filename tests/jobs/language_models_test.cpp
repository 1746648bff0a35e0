// Language models: what transformers has computed with the same weights, and the ways of training them.
#include <map>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/torch.h>

#include <mn/core/error.hpp>
#include <mn/core/file.hpp>
#include <mn/core/json.hpp>
#include <mn/models/create_language_model.hpp>
#include <mn/models/hub_config.hpp>
#include <mn/optimizers/fused_adam.hpp>
#include <mn/sharding/shard_pass.hpp>
#include <mn/sharding/sharded_construction.hpp>
#include <mn/tensor/autocast.hpp>
#include <mn/tensor/tensor.hpp>

#include "tests/support/folders.hpp"
#include "tests/train/toy.hpp"

namespace mn::models {
namespace {

using toy::bytes_of;
using toy::world;

/// Networks, and what transformers computes with them (hub_networks.py).
const nlohmann::json& recorded() {
  static const nlohmann::json all =
      parse_json(read_file(test::source_folder() / "tests/jobs/hub_networks.json"), "hub_networks.json");
  return all;
}

/// Numbers in [-0.5, 0.5), by a hash of the index.
torch::Tensor noise(at::IntArrayRef shape, std::uint32_t seed) {
  torch::Tensor result = torch::empty(shape, torch::kDouble);
  for (std::int64_t i = 0; i < result.numel(); ++i) {
    std::uint32_t x = static_cast<std::uint32_t>(i) + seed * 7919U;
    for (int round = 0; round < 2; ++round) x = (x ^ (x >> 16U)) * 0x45D9F3BU;
    result.mutable_data_ptr<double>()[i] = (x ^ (x >> 16U)) / 4294967296.0 - 0.5;
  }
  return result;
}

void set_weights(LanguageModel& model) {
  const torch::NoGradGuard no_grad;
  std::map<std::string, torch::Tensor> parameters;
  for (const auto& item : model.named_parameters()) parameters[item.key()] = item.value();
  std::uint32_t number = 0;
  for (auto& [name, parameter] : parameters) {
    const bool is_scale = parameter.dim() == 1 && name.ends_with("weight");
    parameter.copy_(noise(parameter.sizes(), number++) * 0.5 + (is_scale ? 1 : 0));
  }
}

torch::Tensor loss_of(LanguageModel& model, const torch::Tensor& tokens, bool recompute = false) {
  const torch::Tensor logits = model.forward(tokens.slice(1, 0, -1), recompute);
  return torch::nn::functional::cross_entropy(logits.flatten(0, 1).to(torch::kFloat), tokens.slice(1, 1).flatten());
}

std::vector<double> numbers_of(const torch::Tensor& tensor) {
  const torch::Tensor flat = tensor.detach().to(torch::kDouble).flatten().contiguous();
  return {flat.const_data_ptr<double>(), flat.const_data_ptr<double>() + flat.numel()};
}

auto near(const nlohmann::json& expected, double tolerance) {
  return testing::Pointwise(testing::DoubleNear(tolerance), expected.get<std::vector<double>>());
}

TEST(LanguageModels, AreThoseOfTransformers) {
  for (const auto& [name, expected] : recorded().items()) {
    const auto model = create_language_model(network_of_config(expected["config"], name));
    set_weights(*model);
    const torch::Tensor tokens = torch::arange(26).view({2, 13}).square() % 37;
    const torch::Tensor logits = model->forward(tokens.slice(1, 0, -1)).index({torch::indexing::Slice(), -1});
    EXPECT_THAT(numbers_of(logits.slice(1, 0, std::nullopt, 5)), near(expected["logits"], 1e-5)) << name;
    torch::optim::SGD optimizer(model->parameters(), torch::optim::SGDOptions(0.1));
    std::vector<double> losses;
    for (int step = 0; step < 20; ++step) {
      const torch::Tensor loss = loss_of(*model, tokens);
      if (step % 6 == 0) losses.push_back(loss.item<double>());
      optimizer.zero_grad();
      loss.backward();
      optimizer.step();
    }
    EXPECT_NEAR(losses.front(), expected["losses"][0].get<double>(), 2e-6) << name;
    EXPECT_THAT(losses, near(expected["losses"], 1e-4)) << name;
  }
}

TEST(LanguageModels, TokensAreReadOneByOneWithACache) {
  const torch::NoGradGuard no_grad;
  for (const auto& [name, expected] : recorded().items()) {
    const auto model = create_language_model(network_of_config(expected["config"], name));
    set_weights(*model);
    const torch::Tensor tokens = torch::arange(26).view({2, 13}).square() % 37;
    const torch::Tensor whole = model->forward(tokens);
    for (const std::int64_t prompt : {1, 9}) {
      KeyValueCache cache;
      std::vector<torch::Tensor> logits = {model->read(tokens.slice(1, 0, prompt), cache)};
      for (std::int64_t i = prompt; i < 13; ++i) logits.push_back(model->read(tokens.slice(1, i, i + 1), cache));
      EXPECT_LT((torch::cat(logits, 1) - whole).abs().max().item<double>(), 1e-5) << name << ", prompt of " << prompt;
      EXPECT_THROW((void)model->read(tokens.slice(1, 0, 2), cache), ArgumentError);
    }
  }
}

TEST(LanguageModels, DocumentsInASequenceDoNotSeeEachOther) {
  for (const auto& [name, expected] : recorded().items()) {
    const auto model = create_language_model(network_of_config(expected["config"], name));
    set_weights(*model);
    const torch::Tensor tokens = torch::arange(26).view({2, 13}).square() % 37;
    const auto documents =
        torch::tensor({1, 1, 1, 1, 1, 1, 2, 2, 2, 2, 3, 0, 0, 1, 1, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2}, torch::kShort)
            .view({2, 13});
    const torch::Tensor packed = model->forward(tokens, false, documents);
    const auto alone = [&](std::int64_t sequence, std::int64_t first, std::int64_t last) {
      const torch::Tensor logits = model->forward(tokens.slice(0, sequence, sequence + 1).slice(1, first, last));
      const torch::Tensor difference = packed[sequence].slice(0, first, last) - logits[0];
      EXPECT_LT(difference.abs().max().item<double>(), 1e-5) << name << ": tokens " << first << " to " << last;
    };
    alone(0, 0, 6);
    alone(0, 6, 10);
    alone(0, 10, 11);
    alone(1, 0, 2);
    alone(1, 2, 13);
    EXPECT_TRUE(packed.equal(model->forward(tokens, true, documents))) << name;
  }
}

TEST(LanguageModels, AConfigIsWrittenAsItWasRead) {
  for (const auto& [name, expected] : recorded().items()) {
    const NetworkOptions network = network_of_config(expected["config"], name);
    const nlohmann::json written = config_of(network);
    EXPECT_EQ(written["model_type"], expected["config"]["model_type"]) << name;
    EXPECT_EQ(config_of(network_of_config(written, name)), written);
    for (const auto& [key, value] : expected["config"].items()) EXPECT_EQ(written[key], value) << name << ": " << key;
  }
}

struct Way {
  Shard shard = Shard::kNone;
  bool recompute = false;
  bool autocast = false;
};

/// Parameters after some steps.
std::string train(const NetworkOptions& network, const Way& way) {
  const auto make = [&] { return create_language_model(network); };
  torch::manual_seed(5);
  const auto model = way.shard == Shard::kParameters ? construct_sharded(world(), make, /*whole_bytes=*/0) : make();
  name_tensors(*model);
  const auto optimizer =
      create_multi_node_optimizer(std::make_unique<FusedAdamW>(model->parameters(), torch::optim::AdamWOptions(0.01)),
                                  world(), {.shard = {.what = way.shard, .unit_bytes = 4096}, .deterministic = true});
  for (int step = 0; step < 3; ++step) {
    const AutocastScope scope(way.autocast ? std::optional(at::kBFloat16) : std::nullopt, Device());
    const torch::Tensor tokens = (torch::arange(3 * 13).view({3, 13}) * (step + 2) + world()->rank()) % 37;
    optimizer->zero_grad();
    optimizer->scale_loss(loss_of(*model, tokens, way.recompute), 3).backward();
    optimizer->step(3);
  }
  const WholeParameters whole(*model);
  return bytes_of(model->parameters());
}

TEST(LanguageModels, RecomputeAndShardingChangeNoBit) {
  for (const auto& [name, expected] : recorded().items()) {
    const NetworkOptions network = network_of_config(expected["config"], name);
    for (const bool autocast : {false, true}) {
      const std::string plain = train(network, {.autocast = autocast});
      EXPECT_EQ(train(network, {.shard = Shard::kParameters, .autocast = autocast}), plain) << name << autocast;
      if (std::holds_alternative<GptOptions>(network) && autocast) continue;  // the sum of a 16-bit branch is rounded
      EXPECT_EQ(train(network, {.recompute = true, .autocast = autocast}), plain) << name << autocast;
    }
  }
}

std::string error_of(const nlohmann::json& config) {
  try {
    static_cast<void>(network_of_config(config, "config.json"));
  } catch (const DataError& error) {
    return error.what();
  }
  return "";
}

TEST(LanguageModels, AnUnsupportedConfigIsNamed) {
  const auto error_with = [&](const char* name, const char* key, const nlohmann::json& value) {
    nlohmann::json config = recorded()[name]["config"];
    config[key] = value;
    return error_of(config);
  };
  EXPECT_EQ(error_with("llama 2", "model_type", "bert"),
            "config.json: model_type \"bert\" is not supported: gpt2, llama, mistral, qwen2, qwen3 are");
  EXPECT_EQ(error_with("llama 2", "hidden_act", "gelu"),
            "config.json: \"hidden_act\" is \"gelu\": supported is only \"silu\"");
  EXPECT_EQ(error_with("llama 2", "hidden_size", nullptr), "config.json lacks \"hidden_size\"");
  EXPECT_EQ(error_with("llama 2", "num_hidden_layers", 1 << 20),
            "config.json: \"num_hidden_layers\" is 1048576: a network has at most 10000 layers");
  EXPECT_EQ(error_with("llama 2", "num_key_value_heads", 3),
            "config.json: 4 heads can't share 3 heads of keys and values");
  EXPECT_EQ(error_with("qwen3", "head_dim", 5), "config.json: heads of width 5 can't be rotated: not an even number");
  EXPECT_EQ(error_with("llama 2", "rope_scaling", {{"rope_type", "yarn"}}),
            "config.json: \"rope_scaling\": \"rope_type\" is \"yarn\": supported is only \"default\" or \"linear\" or "
            "\"llama3\"");
  EXPECT_EQ(error_with("gpt2", "n_inner", 50), "config.json: \"n_inner\" is 50: supported is only 96");
  EXPECT_EQ(error_with("gpt2", "n_head", 5), "config.json: \"n_head\" is 5: it must divide \"n_embd\"");
  EXPECT_THAT(error_with("qwen2", "layer_types", {"full_attention"}), testing::HasSubstr("\"layer_types\" is ["));
  EXPECT_EQ(error_with("llama 2", "rope_parameters", {{"rope_theta", 5.0}}), "");
}

TEST(LanguageModels, AnyConfigIsReadOrNamed) {
  const nlohmann::json values = {nullptr,         -1, 0, 7, 1e300, 0.5, true, "x\ny", nlohmann::json::array(),
                                 {{"factor", -1}}};
  for (const auto& [name, expected] : recorded().items()) {
    nlohmann::json keys = config_of(network_of_config(expected["config"], name));
    for (const char* key : {"layer_types", "rope_parameters", "quantization_config", "n_inner", "sliding_window"})
      keys[key] = 0;
    for (const auto& item : keys.items()) {
      for (const nlohmann::json& value : values) {
        nlohmann::json config = expected["config"];
        config[item.key()] = value;
        EXPECT_THAT(error_of(config), testing::Not(testing::HasSubstr("\n"))) << config;
      }
    }
  }
}

}  // namespace
}  // namespace mn::models

// Low-rank adapters: new ones change nothing, training changes them alone, and merged weights compute the same.
#include <mn/models/lora.hpp>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/torch.h>

#include <mn/core/error.hpp>
#include <mn/models/create_language_model.hpp>
#include <mn/models/hub_config.hpp>

namespace mn::models {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::ThrowsMessage;

NetworkOptions small(bool is_llama) {
  if (is_llama) return LlamaOptions{.vocabulary = 11, .context = 8, .layers = 2, .heads = 2, .width = 8}.resolved();
  return GptOptions{.vocabulary = 11, .context = 8, .layers = 2, .heads = 2, .width = 8};
}

torch::Tensor logits_of(LanguageModel& model) { return model.forward(torch::arange(6).view({1, 6})); }

TEST(Lora, TrainsTheAdaptersAlone) {
  for (const bool is_llama : {false, true}) {
    torch::manual_seed(3);
    const auto model = create_language_model(small(is_llama));
    const torch::Tensor before = logits_of(*model).detach();
    const auto names = add_lora(*model, {.rank = 2, .scale = 3, .layers = {"*_proj", "c_attn", "c_fc"}});
    EXPECT_EQ(names.size(), is_llama ? 14U : 8U);
    EXPECT_TRUE(logits_of(*model).equal(before));
    std::vector<torch::Tensor> frozen, learning;
    for (auto& parameter : model->parameters()) (parameter.requires_grad() ? learning : frozen).push_back(parameter);
    EXPECT_EQ(learning.size(), 2 * names.size());
    torch::optim::SGD optimizer(learning, 1.0);
    for (int step = 0; step < 3; ++step) {
      optimizer.zero_grad();
      logits_of(*model).square().sum().backward();
      optimizer.step();
    }
    for (const auto& parameter : frozen) EXPECT_FALSE(parameter.grad().defined());
    const torch::Tensor trained = logits_of(*model).detach();
    EXPECT_FALSE(torch::allclose(trained, before, 1e-2, 1e-2));
    merge_lora(*model);
    EXPECT_TRUE(torch::allclose(logits_of(*model), trained, 1e-4, 1e-5)) << is_llama;
    EXPECT_EQ(model->parameters().size(), frozen.size());
  }
}

TEST(Lora, DropoutDropsInputsOfAdapters) {
  const auto model = create_language_model(small(true));
  add_lora(*model, {.rank = 2, .dropout = 0.5, .layers = {"q_proj"}});
  for (auto& item : model->named_parameters()) {
    if (item.key().ends_with("lora_B.weight")) torch::NoGradGuard(), item.value().data().fill_(1);
  }
  EXPECT_FALSE(logits_of(*model).equal(logits_of(*model)));
  model->eval();
  EXPECT_TRUE(logits_of(*model).equal(logits_of(*model)));
}

TEST(Lora, LayersAreFoundByEndsOfNamesAndPatterns) {
  const auto names = [](std::vector<std::string> layers) {
    return add_lora(*create_language_model(small(true)), {.layers = std::move(layers)});
  };
  EXPECT_THAT(names({"mlp.up_proj"}), ElementsAre("model.layers.0.mlp.up_proj", "model.layers.1.mlp.up_proj"));
  EXPECT_THAT(names({"model.layers.1.self_attn.q_proj"}), ElementsAre("model.layers.1.self_attn.q_proj"));
  EXPECT_EQ(names({"layers.[0]"}).size(), 7U);
  EXPECT_THAT(
      [&] {
        names({"c_attn", "x"});
      },
      ThrowsMessage<ArgumentError>(HasSubstr("matches \"c_attn,x\"; one is called model.layers.0.")));
}

TEST(Lora, TheAdaptersAloneHaveTheSameNames) {
  const auto model = create_language_model(small(false));
  add_lora(*model, {.rank = 2, .layers = {"h.1.attn.c_attn"}});
  const auto adapters = lora_of(*model);
  std::vector<std::string> names;
  for (const auto& item : adapters->named_parameters()) {
    names.push_back(item.key());
    EXPECT_TRUE(item.value().is_same(model->named_parameters()[item.key()]));
  }
  EXPECT_THAT(names, ElementsAre("h.1.attn.c_attn.lora_A.weight", "h.1.attn.c_attn.lora_B.weight"));
}

}  // namespace
}  // namespace mn::models

// ConvNeXt and ViT: timm's numbers, stochastic depth, dropout, and activations that backward computes again.
#include <cmath>
#include <map>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/torch.h>

#include <mn/core/error.hpp>
#include <mn/models/models.hpp>
#include <mn/models/stochastic_depth.hpp>

namespace mn::models {
namespace {

using ::testing::HasSubstr;
using ::testing::ThrowsMessage;

/// `count` numbers from −1 to 1 that look random.
torch::Tensor wave(std::int64_t count, std::int64_t shift) {
  return (torch::arange(count, torch::kDouble) * 7919 + shift * 104729).remainder(2003) / 1001.5 - 1;
}

/// Sets parameter i, in the order of names, to a function of i and of the shape.
void fill(torch::nn::Module& model) {
  const torch::NoGradGuard no_grad;
  std::map<std::string, torch::Tensor> sorted;
  for (const auto& item : model.named_parameters()) sorted.emplace(item.key(), item.value());
  std::int64_t i = 0;
  for (auto& [name, parameter] : sorted) {
    torch::Tensor values = wave(parameter.numel(), i++);
    if (parameter.dim() > 1) {
      values = values * std::sqrt(3.0 * static_cast<double>(parameter.size(0)) / static_cast<double>(values.numel()));
    } else {
      values = name.ends_with(".bias") ? 0.1 * values : 1 + 0.5 * values;
    }
    parameter.copy_(values.view(parameter.sizes()));
  }
}

/// The numbers are those of timm 1.0.31 (convnext_tiny, and vit_tiny_patch16_224 with img_size=64) in float64.
TEST(ResidualModels, HaveTimmsLogits) {
  const torch::NoGradGuard no_grad;
  const std::map<std::string, std::vector<double>> expected = {
      {"convnext_tiny", {-0.407469, 1.275495, -1.040041, -0.116954, -0.409706, 1.273776, -1.037639, -0.118091}},
      {"vit_ti_16", {0.619237, -0.202813, -0.400912, 0.526391, 0.399049, -0.204453, -0.332435, 0.529074}}};
  const auto images = wave(2 * 3 * 64 * 64, 1).view({2, 3, 64, 64}).to(torch::kFloat);
  for (const auto& [arch, logits] : expected) {
    const auto model = create_model(arch, 4, {.image_size = 64});
    fill(*model);
    model->eval();
    const auto error = model->forward(images) - torch::tensor(logits).view({2, 4});
    EXPECT_LE(error.abs().max().item<double>(), 1e-5) << arch << ": " << model->forward(images);
  }
}

TEST(ResidualModels, StochasticDepthSkipsSamplesAndKeepsTheMean) {
  torch::manual_seed(1);
  const auto branch = torch::ones({20000, 2, 3});
  const auto kept = skip_branches(branch, 0.25);
  EXPECT_EQ(kept.ne(0).sum().item<std::int64_t>(), 6 * kept.select(1, 0).select(1, 0).ne(0).sum().item<std::int64_t>());
  EXPECT_NEAR(kept.ne(0).to(torch::kDouble).mean().item<double>(), 0.75, 0.02);
  EXPECT_FLOAT_EQ(kept.max().item<float>(), 1 / 0.75F);
  EXPECT_TRUE(skip_branches(branch, 0).equal(branch));
  EXPECT_EQ(skip_probability(0.3, 0, 4), 0);
  EXPECT_DOUBLE_EQ(skip_probability(0.3, 2, 4), 0.2);
  EXPECT_DOUBLE_EQ(skip_probability(0.3, 3, 4), 0.3);
}

struct Result {
  torch::Tensor logits, gradient;
};

/// Logits and the gradient of the images in training, always with the same random weights and random numbers.
Result train(const std::string& arch, ClassifierOptions options, bool channels_last = false) {
  options.image_size = 64;
  torch::manual_seed(2);
  const auto model = create_model(arch, 3, options);
  fill(*model);
  model->train();
  auto images = torch::randn({4, 3, 64, 64});
  if (channels_last) images = images.contiguous(at::MemoryFormat::ChannelsLast);
  images.requires_grad_();
  torch::manual_seed(3);
  const auto logits = model->forward(images);
  logits.square().sum().backward();
  return {logits.detach(), images.grad()};
}

/// The largest difference, relative to the largest value.
double difference(const torch::Tensor& a, const torch::Tensor& b) {
  return ((a - b).abs().max() / a.abs().max()).item<double>();
}

TEST(ResidualModels, RecomputationChangesNothing) {
  for (const std::string arch : {"convnext_tiny", "vit_ti_16"}) {
    ClassifierOptions options{.stochastic_depth = 0.5, .dropout = 0.1};
    const Result kept = train(arch, options);
    options.recompute = true;
    const Result again = train(arch, options);
    EXPECT_LE(difference(kept.logits, again.logits), 1e-6) << arch;
    EXPECT_LE(difference(kept.gradient, again.gradient), 1e-5) << arch;
  }
}

TEST(ResidualModels, OptionsActInTrainingOnly) {
  for (const std::string arch : {"convnext_tiny", "vit_ti_16"}) {
    const Result plain = train(arch, {});
    EXPECT_GE(difference(plain.logits, train(arch, {.stochastic_depth = 0.5}).logits), 1e-2) << arch;
    const bool ignores_dropout = plain.logits.equal(train(arch, {.dropout = 0.2}).logits);
    EXPECT_EQ(ignores_dropout, !has_dropout_option(arch)) << arch;
    EXPECT_LE(difference(plain.gradient, train(arch, {}, /*channels_last=*/true).gradient), 1e-4) << arch;
    const torch::NoGradGuard no_grad;
    const auto model = create_model(arch, 3, {.image_size = 64, .stochastic_depth = 0.5, .dropout = 0.2});
    model->eval();
    const auto images = torch::randn({2, 3, 64, 64});
    EXPECT_TRUE(model->forward(images).equal(model->forward(images))) << arch;
  }
}

TEST(ResidualModels, AVitTakesImagesOfOneSize) {
  EXPECT_THAT([] { (void)create_vit_ti_16(2, {.image_size = 40}); },
              ThrowsMessage<ArgumentError>(HasSubstr("multiples of 16, not 40")));
  const auto model = create_vit_ti_16(2, {.image_size = 48});
  EXPECT_THAT(
      [&] {
        (void)model->forward(torch::zeros({1, 3, 64, 48}));
      },
      ThrowsMessage<ArgumentError>(HasSubstr("for images of 48 pixels a side got 64 × 48")));
}

}  // namespace
}  // namespace mn::models

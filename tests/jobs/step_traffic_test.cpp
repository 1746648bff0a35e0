// Memory traffic of training steps. Operators and their bytes are counted on the CPU at small sizes. Bytes grow
// linearly with tokens and pixels, so the bytes at the sizes of docs/performance.md follow from a few counts.
#include <cstdio>
#include <functional>
#include <vector>

#include <gtest/gtest.h>
#include <torch/torch.h>

#include <mn/kernels/layer_norm.hpp>
#include <mn/kernels/token_loss.hpp>
#include <mn/models/gpt.hpp>
#include <mn/models/models.hpp>
#include <mn/tensor/autocast.hpp>
#include <mn/tensor/modules.hpp>

#include "tests/support/operator_count.hpp"

namespace mn::jobs {
namespace {

using test::OperatorTraffic;
using Tensors = std::vector<at::Tensor>;

constexpr double kTokens = 16 * 1024;  // a minibatch of GPT-2 124M
constexpr std::int64_t kWidth = 768;

OperatorTraffic operator-(OperatorTraffic a, const OperatorTraffic& b) {
  return {a.calls - b.calls, a.bytes - b.bytes};
}
OperatorTraffic operator+(OperatorTraffic a, const OperatorTraffic& b) {
  return {a.calls + b.calls, a.bytes + b.bytes};
}

OperatorTraffic passes_of(const std::function<void()>& work) {
  const test::OperatorCount count;
  work();
  return count.passes();
}

void print(const char* what, const OperatorTraffic& traffic) {
  std::printf("%-48s %6.2f GB %4ld operators\n", what, traffic.bytes / 1e9, traffic.calls);
}

/// The traffic of kTokens tokens, from two counts with few tokens.
OperatorTraffic of_all_tokens(const std::function<OperatorTraffic(std::int64_t tokens)>& count) {
  const OperatorTraffic few = count(16), more = count(32);
  EXPECT_EQ(few.calls, more.calls);
  return {few.calls, few.bytes + (more.bytes - few.bytes) / 16 * (kTokens - 16)};
}

/// Forward and backward of a network with GPT-2's width and this number of layers.
OperatorTraffic gpt_passes(std::int64_t layers, std::int64_t tokens) {
  models::Gpt model({.vocabulary = 16, .context = tokens, .layers = layers, .heads = 12, .width = kWidth});
  const at::Tensor input = torch::zeros({1, tokens}, at::kLong);
  return passes_of([&] {
    at::Tensor logits;
    {
      const AutocastScope autocast(at::kBFloat16, Device());
      logits = model.forward(input);
    }
    logits.sum().backward();
  });
}

/// What layer_norm_residual() replaces: an addition, a normalization in float32 and its conversion.
ResidualNorm plain_norm(const at::Tensor& x, const at::Tensor& branch, const at::Tensor& weight,
                        const at::Tensor& bias) {
  const at::Tensor sum = x + branch;
  return {sum, torch::layer_norm(sum, {kWidth}, weight, bias).to(branch.scalar_type())};
}

template <class Norm>
OperatorTraffic norm_passes(const Norm& norm, std::int64_t tokens) {
  const at::Tensor x = torch::ones({tokens, kWidth}).requires_grad_();
  const at::Tensor branch = torch::ones({tokens, kWidth}, at::kBFloat16).requires_grad_();
  const at::Tensor weight = torch::ones({kWidth}).requires_grad_(), bias = torch::ones({kWidth}).requires_grad_();
  const Tensors gradients = {torch::ones_like(x), torch::ones_like(branch)};
  return passes_of([&] {
    const ResidualNorm made = norm(x, branch, weight, bias);
    static_cast<void>(torch::autograd::grad({made.sum, made.normalized}, {x, branch, weight, bias}, gradients));
  });
}

TEST(StepTraffic, OfALayerOfGpt) {
  const OperatorTraffic layer =
      of_all_tokens([](std::int64_t tokens) { return gpt_passes(2, tokens) - gpt_passes(1, tokens); });
  const auto fused = [](const auto&... tensors) { return layer_norm_residual(tensors...); };
  const auto norm = of_all_tokens([&](std::int64_t tokens) { return norm_passes(fused, tokens); });
  const auto plain = of_all_tokens([](std::int64_t tokens) { return norm_passes(plain_norm, tokens); });
  print("layer of GPT-2", layer);
  print("layer of GPT-2, norms of libtorch", layer + (plain - norm) + (plain - norm));
  EXPECT_LE(layer.bytes, 1.7e9);
  EXPECT_LT(norm.bytes, plain.bytes / 1.5);
}

template <class Loss>
OperatorTraffic loss_passes(const Loss& loss, std::int64_t tokens) {
  const at::Tensor logits = torch::zeros({tokens, 50304}, at::kBFloat16).requires_grad_();
  const at::Tensor targets = torch::zeros({tokens}, at::kLong);
  return passes_of([&] { loss(logits.view_as(logits), targets).backward(); });
}

TEST(StepTraffic, OfTheTokenLoss) {
  const auto fused = [](const at::Tensor& logits, const at::Tensor& targets) {
    return token_loss(logits, targets, {.overwrite_logits = true});
  };
  const auto plain = [](const at::Tensor& logits, const at::Tensor& targets) {
    return torch::nn::functional::cross_entropy(logits.to(at::kFloat), targets);
  };
  const auto loss = of_all_tokens([&](std::int64_t tokens) { return loss_passes(fused, tokens); });
  print("token loss", loss);
  print("token loss of libtorch, in float32",
        of_all_tokens([&](std::int64_t tokens) { return loss_passes(plain, tokens); }));
  EXPECT_LE(loss.bytes, 3.4e9);
}

/// Bytes are a + images × (b pixels + c), as all layers but the last have a fixed share of the pixels.
TEST(StepTraffic, OfResNet50) {
  const auto model = models::create_resnet50(1000);
  use_channels_last(*model);
  const auto count = [&](std::int64_t images, std::int64_t side) {
    const at::Tensor x = torch::zeros({images, 3, side, side}).contiguous(at::MemoryFormat::ChannelsLast);
    const at::Tensor target = torch::zeros({images}, at::kLong);
    model->zero_grad();
    return passes_of([&] {
      at::Tensor loss;
      {
        const AutocastScope autocast(at::kBFloat16, Device());
        loss = torch::nn::functional::cross_entropy(model->forward(x).to(at::kFloat), target);
      }
      loss.backward();
    });
  };
  const OperatorTraffic base = count(2, 32);
  const double two_images = (count(4, 32) - base).bytes;
  const double pixel = (count(2, 64) - base).bytes / (2 * (64 * 64 - 32 * 32));
  const double whole = base.bytes - two_images + 256 * (two_images / 2 + pixel * (224 * 224 - 32 * 32));
  print("ResNet-50, 256 images", {base.calls, whole});
  EXPECT_LE(whole, 73e9);
}

}  // namespace
}  // namespace mn::jobs

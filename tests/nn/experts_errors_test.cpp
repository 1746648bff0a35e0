// Wrong uses of a MixtureOfExperts.
#include <memory>
#include <string>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/torch.h>

#include <mn/core/error.hpp>
#include <mn/nn/mixture_of_experts.hpp>
#include <mn/optimizers/fused_adam.hpp>
#include <mn/tensor/tensor.hpp>

#include "tests/train/toy.hpp"

namespace mn {
namespace {

using testing::HasSubstr;
using testing::ThrowsMessage;
using toy::world;

TEST(MixtureOfExpertsErrors, AreEqualOnAllRanks) {
  const auto make = [](MixtureOfExpertsOptions form) { MixtureOfExperts(world(), std::move(form)); };
  const auto error = [](const std::string& text) { return ThrowsMessage<ArgumentError>(HasSubstr(text)); };
  EXPECT_THAT([&] { make({.width = 2, .hidden = 0}); }, error("a hidden width"));
  EXPECT_THAT([&] { make({.width = 2, .hidden = 2, .experts = 1}); },
              error("from 1 to 1 experts for each token, got 2"));
  EXPECT_THAT([&] { make({.width = 2, .hidden = 2, .capacity_factor = -1}); }, error("a capacity factor"));
  EXPECT_THAT([&] { make({.width = 2, .hidden = 2, .expert_parallel = 7}); }, error("that expert_parallel divides"));
  EXPECT_THAT([&] { make({.width = 2, .hidden = 2, .experts_of_rank = {1}}); }, error("and a sum of 8"));
  MixtureOfExperts layer(world(), MixtureOfExpertsOptions{.width = 2, .hidden = 2});
  EXPECT_THAT([&] { (void)layer(torch::zeros({3, 3})); }, error("whose last dimension differs"));
  EXPECT_THAT([&] { layer->to(at::kDouble); }, error("experts can't be converted"));
  EXPECT_THAT([&] { layer->to(at::kMeta); }, error("experts can't move to meta"));
  layer->to(c10::Device(world()->device()), at::kFloat);

  MixtureOfExpertsOptions unlike{.width = 2, .hidden = 2};
  if (world()->rank() == world()->size() - 1) unlike.capacity_factor = 2;
  if (world()->size() > 1) {
    EXPECT_THAT([&] { make(unlike); }, error("equal options on all ranks: capacity_factor is 0.0 on rank 0 and 2.0"));
  }
  EXPECT_THAT([] { MixtureOfExperts(nullptr, MixtureOfExpertsOptions{}); }, error("there is no communicator"));

  const auto optimize = [&](std::vector<at::Tensor> parameters, const OptimizerOptions& options) {
    (void)create_multi_node_optimizer(std::make_unique<FusedAdam>(std::move(parameters), 0.1), world(), options);
  };
  const auto usage = [](const std::string& text) { return ThrowsMessage<UsageError>(HasSubstr(text)); };
  EXPECT_THAT([&] { optimize(layer->parameters(), {.double_buffering = true}); },
              usage("experts and double buffering"));
  EXPECT_THAT([&] { optimize(layer->parameters(), {.local_steps = 2}); }, usage("experts and local steps"));
  EXPECT_THAT([&] { optimize(layer->parameters(), {.shard = {.what = Shard::kOptimizer}}); },
              usage("experts and sharding"));
  const auto alone = world()->split(world()->rank(), 0);
  if (world()->size() > 1) {
    MixtureOfExperts own(alone, MixtureOfExpertsOptions{.width = 2, .hidden = 2});
    EXPECT_THAT([&] { optimize(own->parameters(), {}); }, usage("experts of a layer on 1 ranks"));
  }
}

/// A layer and an optimizer that do not belong together.
TEST(MixtureOfExpertsErrors, AreFoundBeforeAnUpdate) {
  auto layer = std::make_unique<MixtureOfExperts>(world(), MixtureOfExpertsOptions{.width = 2, .hidden = 2});
  const auto backward = [&] { (*layer)(torch::ones({3, 2})).output.sum().backward(); };
  testing::internal::CaptureStderr();
  for (int i = 0; i < 3; ++i) backward();
  const std::string log = testing::internal::GetCapturedStderr();
  const std::string warning = "no MultiNodeOptimizer has its parameters";
  const std::size_t first = log.find(warning);
  EXPECT_EQ(first != std::string::npos, world()->rank() == 0) << log;
  EXPECT_TRUE(first == std::string::npos || log.find(warning, first + 1) == std::string::npos) << log;

  const auto optimizer = create_multi_node_optimizer(std::make_unique<FusedAdam>((*layer)->parameters(), 0.1), world());
  backward();
  layer.reset();
  EXPECT_THAT([&] { optimizer->step(); }, ThrowsMessage<UsageError>(HasSubstr("ended before the optimizer")));
}

}  // namespace
}  // namespace mn

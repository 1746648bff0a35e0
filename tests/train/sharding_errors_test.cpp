// What programs cannot do with sharded parameters: each is one line of error that says what to do.
#include <functional>
#include <sstream>
#include <string>

#include <gtest/gtest.h>

#include <mn/checkpoint/safetensors.hpp>
#include <mn/core/error.hpp>

#include "tests/support/temporary_folder.hpp"
#include "tests/train/sharded_training.hpp"
#include "tests/train/toy.hpp"

namespace mn::sharded {
namespace {

using toy::world;
using Action = std::function<void()>;

void expect_error(const Action& act, const std::string& part) {
  std::string text = "no error";
  try {
    act();
  } catch (const std::exception& error) {
    text = error.what();
  }
  EXPECT_NE(text.find(part), std::string::npos) << text;
}

[[nodiscard]] std::shared_ptr<MultiNodeOptimizer> sharded_adam(torch::nn::Linear& net,
                                                               Shard what = Shard::kParameters) {
  return create_multi_node_optimizer(std::make_unique<torch::optim::Adam>(net->parameters()), world(),
                                     {.shard = {.what = what}});
}

/// A training whose parameters have no memory.
class ShardingErrors : public ::testing::Test {
 protected:
  [[nodiscard]] at::Tensor loss() { return training_.model().forward(torch::randint(31, {2, 5})); }

  Training training_{Shard::kParameters, {}, world()};
  MultiNodeOptimizer& optimizer_ = training_.optimizer();
  at::Tensor table_ = training_.model().table->weight;
};

TEST_F(ShardingErrors, ReadsOutsideOfPass) {
  const Action reads[] = {[&] { table_.sum(); },
                          [&] { table_.clone(); },
                          [&] { table_.detach().view({-1}).max(); },
                          [&] { table_[3][4].item<float>(); },
                          [&] { torch::empty_like(table_).copy_(table_); },
                          [&] { table_.to(at::kDouble); },
                          [&] {
                            torch::cat({torch::ones({1, 24}), table_});
                          },
                          [&] { at::_foreach_norm({table_}); },
                          [&] {
                            training_.model().forward(torch::zeros({1, 2}, at::kLong));
                          },
                          [&] { static_cast<void>(table_.accessor<float, 2>()); }};
  for (std::size_t i = 0; i + 1 < std::size(reads); ++i)
    expect_error(reads[i], "table.weight is sharded and has no values here");
  expect_error(reads[std::size(reads) - 1], "not allocated");  // libtorch's own text: no operator runs
}

TEST_F(ShardingErrors, Writes) {
  const at::NoGradGuard no_grad;
  const Action writes[] = {[&] { table_.mul_(2); },
                           [&] { table_.detach().zero_(); },
                           [&] { table_.data().fill_(1); },
                           [&] { torch::nn::init::normal_(table_); },
                           [&] { at::_foreach_mul_({table_}, 2); },
                           [&] { table_[3].copy_(torch::ones({24})); },
                           [&] {
                             at::add_out(table_, torch::ones({31, 24}), 1);
                           }};
  for (const bool in_pass : {false, true}) {
    if (in_pass) optimizer_.zero_grad();
    for (const Action& write : writes) expect_error(write, "table.weight is sharded");
  }
}

// torch::save() asks for the size while it writes, and ends the process; it does not silently store nothing.
TEST_F(ShardingErrors, SavingNeedsWholeParameters) {
  expect_error([&] { static_cast<void>(table_.storage().nbytes()); }, "is_heap_allocated");
  const WholeParameters whole(training_.model());
  std::stringstream file;
  torch::serialize::OutputArchive saved;
  training_.model().save(saved);
  saved.save_to(file);
  torch::serialize::InputArchive loaded;
  loaded.load_from(file);
  Model other({}, 0);
  other.load(loaded);
  EXPECT_TRUE(torch::equal(other.table->weight, table_));
}

TEST_F(ShardingErrors, WritesWhileWholeReachThePieces) {
  {
    const WholeParameters whole(training_.model());
    const at::NoGradGuard no_grad;
    table_.fill_(3);
  }
  const WholeParameters whole(training_.model());
  EXPECT_TRUE(table_.eq(3).all().item<bool>());
}

TEST_F(ShardingErrors, StepsWhileWhole) {
  optimizer_.zero_grad();
  optimizer_.scale_loss(loss(), 10).backward();
  const WholeParameters whole(training_.model());
  expect_error([&] { optimizer_.step(10); }, "an update while a mn::WholeParameters lives would be lost");
}

TEST(ShardingOfOptimizer, ClearsGradientsAsLibtorch) {
  torch::nn::Linear net(24, 49);
  const auto adam = sharded_adam(net, Shard::kOptimizer);
  for (int step = 0; step < 2; ++step) {
    EXPECT_NO_THROW(adam->actual().zero_grad());
    net->forward(torch::ones({2, 24})).sum().backward();
    adam->step();
  }
}

TEST(ShardingOfOptimizer, AWrittenGradientIsAFaultOnAllRanks) {
  torch::nn::Linear net(24, 49);
  const auto adam = sharded_adam(net, Shard::kOptimizer);
  adam->zero_grad();
  net->forward(torch::ones({2, 24})).sum().backward();
  if (world()->rank() == world()->size() - 1) net->bias.mutable_grad() = torch::ones({49});
  expect_error([&] { adam->step(); }, "has set the gradient of");
}

TEST(ShardingOfOptimizer, AMeanThatWasNotClearedIsAFault) {
  torch::nn::Linear net(24, 49);
  const auto adam = sharded_adam(net, Shard::kGradients);
  for (int step = 0; step < 2; ++step) {
    if (step == 0) adam->zero_grad();
    net->forward(torch::ones({2, 24})).sum().backward();
    if (step == 0) adam->step();
  }
  expect_error([&] { adam->step(); }, "is still the mean of an earlier step");
}

TEST(ShardingWithoutOptimizer, ParametersAreLost) {
  torch::nn::Linear net(24, 49);
  { const auto adam = sharded_adam(net); }
  expect_error([&] { net->weight.sum(); }, "its values ended with the optimizer");
  expect_error([&] { static_cast<void>(sharded_adam(net)); }, "its values ended with the optimizer");
  const test::TemporaryFolder folder;
  expect_error([&] { save_model(folder.path() / "model.safetensors", *net, *world()); }, "ended with the optimizer");
}

TEST(ShardingWithoutOptimizer, ParametersStayWhole) {
  torch::nn::Linear net(24, 49);
  const at::Tensor before = net->weight.detach().clone();
  world()->bcast(buffer_view(before));
  auto adam = sharded_adam(net);
  {
    const WholeParameters whole(*net);
    const ShardPass pass(*net);
    adam.reset();
  }
  EXPECT_TRUE(torch::equal(net->weight, before));
  net->weight.data().add_(1);
  adam = sharded_adam(net);
  const WholeParameters whole(*net);
  EXPECT_TRUE(torch::equal(net->weight, before + 1));
}

TEST_F(ShardingErrors, GradientsWithGraph) {
  optimizer_.zero_grad();
  const at::Tensor scaled = optimizer_.scale_loss(loss(), 10);
  expect_error([&] { scaled.backward({}, true, /*create_graph=*/true); }, "has a graph (create_graph)");
}

TEST_F(ShardingErrors, Closures) {
  expect_error([&] { optimizer_.step([&] { return loss(); }, 10.0); }, "excludes double buffering");
}

TEST_F(ShardingErrors, BackwardAfterReduction) {
  optimizer_.zero_grad();
  optimizer_.scale_loss(loss(), 10, 2).backward();
  EXPECT_TRUE(optimizer_.reduce_gradients(10));
  expect_error([&] { static_cast<void>(loss()); }, "is sharded and has no values here");
}

TEST_F(ShardingErrors, ScaledTooLate) {
  for (int step = 0; step < 2; ++step) {
    optimizer_.zero_grad();
    optimizer_.scale_loss(loss(), 10).backward();
    if (step == 0) optimizer_.step(10);
  }
  expect_error([&] { optimizer_.scale_gradients(0.5); }, "comes too late");
}

TEST(ShardingOfHalf, IsRefused) {
  torch::nn::Linear net(3, 2);
  net->to(at::kHalf);
  const Action make = [&] {
    (void)create_multi_node_optimizer(std::make_unique<torch::optim::SGD>(net->parameters(), 0.1), world(),
                                      {.shard = {.what = Shard::kOptimizer}});
  };
  expect_error(make, "parameters of float16 cannot be sharded: convert the model to float32 or bfloat16");
}

TEST_F(ShardingErrors, ParametersThatJoin) {
  const at::Tensor added = torch::ones({3}).requires_grad_();
  optimizer_.actual().add_param_group(torch::optim::OptimizerParamGroup({added}));
  expect_error([&] { optimizer_.zero_grad(); }, "parameters cannot join a sharded optimizer");
}

TEST(ShardingOptions, ExcludeOthers) {
  const auto with = [](const std::function<void(OptimizerOptions&)>& set) {
    OptimizerOptions options;
    options.shard.what = Shard::kOptimizer;
    set(options);
    const at::Tensor own = torch::ones({3}).requires_grad_();
    auto adam = std::make_unique<torch::optim::Adam>(std::vector<at::Tensor>{own});
    static_cast<void>(create_multi_node_optimizer(std::move(adam), world(), options));
  };
  expect_error([&] { with([](auto& o) { o.double_buffering = true; }); }, "double buffering");
  expect_error([&] { with([](auto& o) { o.local_steps = 4; }); }, "local steps");
  expect_error([&] { with([](auto& o) { o.compression.kind = Compression::kFp16; }); }, "compression");
}

TEST(ShardingOptions, ExcludeOptimizersThatHaveMadeSteps) {
  const at::Tensor own = torch::ones({3}).requires_grad_();
  auto adam = std::make_unique<torch::optim::Adam>(std::vector<at::Tensor>{own});
  own.mutable_grad() = torch::ones({3});
  adam->step();
  OptimizerOptions options;
  options.shard.what = Shard::kOptimizer;
  expect_error([&] { static_cast<void>(create_multi_node_optimizer(std::move(adam), world(), options)); },
               "has made steps");
}

}  // namespace
}  // namespace mn::sharded

// Float32 masters of 16-bit weights: updates, resumes, averages, and the comparison of ranks.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <mn/checkpoint/safetensors.hpp>
#include <mn/core/error.hpp>
#include <mn/optimizers/fused_adam.hpp>
#include <mn/optimizers/fused_sgd.hpp>
#include <mn/optimizers/master_weights.hpp>
#include <mn/tensor/autocast.hpp>
#include <mn/trainer/extensions/norms.hpp>
#include <mn/trainer/extensions/weight_average.hpp>

#include "tests/train/toy.hpp"

namespace mn {
namespace {

using testing::HasSubstr;
using testing::ThrowsMessage;
using toy::same_on_all;
using toy::TestFolder;
using toy::world;

using MakeOptimizer = std::function<std::unique_ptr<torch::optim::Optimizer>(std::vector<at::Tensor>)>;

template <class Optimizer, class Options>
MakeOptimizer make(const Options& options) {
  return [options](std::vector<at::Tensor> parameters) {
    return std::make_unique<Optimizer>(std::move(parameters), options);
  };
}

MasterWeights& masters_of(torch::optim::Optimizer& optimizer) { return dynamic_cast<MasterWeights&>(optimizer); }

/// Updates of rate 0.001, which are smaller than the rounding of most of the weights.
void expect_float64(const MakeOptimizer& fused, const MakeOptimizer& torchs) {
  torch::manual_seed(3);
  const at::Tensor narrow = torch::randn({4, 33}).to(at::kBFloat16).requires_grad_();
  const at::Tensor wide = torch::randn({7}).requires_grad_();
  std::vector<at::Tensor> numbers;
  for (const at::Tensor& each : {narrow, wide}) numbers.push_back(each.detach().to(at::kDouble).requires_grad_());
  const auto actual = fused({narrow, wide}), expected = torchs(numbers);
  masters_of(*actual).keep_masters();
  for (int step = 0; step < 20; ++step) {
    narrow.mutable_grad() = torch::randn({4, 33}).to(at::kBFloat16);
    wide.mutable_grad() = torch::randn({7});
    numbers[0].mutable_grad() = narrow.grad().to(at::kDouble);
    numbers[1].mutable_grad() = wide.grad().to(at::kDouble);
    actual->step();
    expected->step();
  }
  const at::Tensor master = exact_weight(*actual, narrow);
  EXPECT_EQ(master.scalar_type(), at::kFloat);
  EXPECT_TRUE(torch::allclose(master.to(at::kDouble), numbers[0], 1e-5, 1e-6));
  EXPECT_TRUE(narrow.equal(master.to(at::kBFloat16)));
  EXPECT_TRUE(exact_weight(*actual, wide).is_same(wide));
  EXPECT_TRUE(torch::allclose(wide.to(at::kDouble), numbers[1], 1e-5, 1e-6));
}

TEST(MasterWeights, FollowTorchsUpdatesInFloat64) {
  using namespace torch::optim;
  const auto adam = AdamOptions(0.001).amsgrad(true);
  expect_float64(make<FusedAdam>(adam), make<Adam>(adam));
  const auto adamw = AdamWOptions(0.001).weight_decay(0.1);
  expect_float64(make<FusedAdamW>(adamw), make<AdamW>(adamw));
  const auto sgd = SGDOptions(0.001).momentum(0.9).nesterov(true).weight_decay(0.01);
  expect_float64(make<FusedSgd>(sgd), make<SGD>(sgd));
  expect_float64(make<FusedSgd>(SGDOptions(0.001)), make<SGD>(SGDOptions(0.001)));
}

TEST(MasterWeights, SparseGradientsAreRejected) {
  const at::Tensor table = torch::ones({3, 2}, at::kBFloat16).requires_grad_();
  FusedSgd sgd(std::vector<at::Tensor>{table}, torch::optim::SGDOptions(0.1));
  sgd.keep_masters();
  table.mutable_grad() = torch::ones({3, 2}, at::kBFloat16).to_sparse(1);
  EXPECT_THROW(sgd.step(), ArgumentError);
}

/// A training of the toy network. With `narrow` its weights are bfloat16, and have masters unless `masters` is false.
struct Job {
  Job(bool narrow, const std::filesystem::path& out, std::int64_t iterations, const OptimizerOptions& how = {},
      bool masters = true) {
    torch::manual_seed(5);
    net = std::make_shared<toy::ToyNet>(false);
    if (narrow) narrow_weights(*net, at::kBFloat16);
    auto adam = std::make_unique<FusedAdam>(net->parameters(), torch::optim::AdamOptions(0.003));
    if (narrow && masters) adam->keep_masters();
    std::shared_ptr<MultiNodeOptimizer> optimizer = create_multi_node_optimizer(std::move(adam), world(), how);
    optimizer->add_hook("clip", gradient_clipping(0.5));
    const auto loss = [net = net](const Batch& batch, Summary&) {
      const AutocastScope autocast(at::kBFloat16, Device{});
      return torch::nn::functional::cross_entropy(net->forward(batch.data).to(at::kFloat), batch.target);
    };
    trainer = std::make_unique<Trainer>(world(), optimizer, std::make_shared<toy::ToyIterator>(50, 4, *world()), net,
                                        loss, TrainerOptions{.iterations = iterations, .out = out});
    average = &trainer->extend(std::make_unique<extensions::WeightAverage>(0.9));
    trainer->extend(std::make_unique<extensions::Norms>(1));
  }
  torch::optim::Optimizer& actual() const { return trainer->optimizer().actual(); }
  /// The exact weights, the parameters, and the averages.
  std::vector<at::Tensor> result() const {
    std::vector<at::Tensor> all;
    for (const at::Tensor& parameter : net->parameters()) all.push_back(exact_weight(actual(), parameter).detach());
    for (const at::Tensor& parameter : net->parameters()) all.push_back(parameter.detach());
    for (const auto& [name, tensor] : average->tensors()) all.push_back(tensor);
    return all;
  }
  std::shared_ptr<toy::ToyNet> net;
  std::unique_ptr<Trainer> trainer;
  extensions::WeightAverage* average = nullptr;
};

TEST(MasterWeights, ResumeBitForBit) {
  const TestFolder folder(world());
  const std::string path = (folder.path() / "three").string();
  Job whole(true, folder.path(), 9);
  EXPECT_EQ(whole.trainer->run(), 0);
  EXPECT_TRUE(same_on_all(toy::bytes_of(whole.result())));
  Job first(true, folder.path(), 3);
  EXPECT_EQ(first.trainer->run(), 0);
  first.trainer->save(path);
  Job second(true, folder.path(), 9);
  EXPECT_TRUE(second.trainer->resume(path));
  EXPECT_EQ(second.trainer->run(), 0);
  EXPECT_EQ(toy::bytes_of(second.result()), toy::bytes_of(whole.result()));
  const at::Tensor weight = whole.net->first->weight;
  EXPECT_EQ(weight.scalar_type(), at::kBFloat16);
  EXPECT_EQ(weight.grad().scalar_type(), at::kBFloat16);
  EXPECT_EQ(whole.net->first->bias.scalar_type(), at::kFloat);
  EXPECT_TRUE(weight.equal(exact_weight(whole.actual(), weight).to(at::kBFloat16)));
}

/// Moments change between 16 bits and float32; masters begin as the weights, or are dropped.
TEST(MasterWeights, BeginAndEndWithAResume) {
  const TestFolder folder(world());
  for (const bool masters : {false, true}) {
    Job first(true, folder.path(), 3, {}, masters);
    EXPECT_EQ(first.trainer->run(), 0);
    first.trainer->save(folder.path() / "c");
    Job second(true, folder.path(), 6, {}, !masters);
    EXPECT_TRUE(second.trainer->resume((folder.path() / "c").string()));
    EXPECT_TRUE(second.net->first->weight.equal(first.net->first->weight));
    EXPECT_EQ(second.trainer->run(), 0);
    EXPECT_EQ(exact_weight(second.actual(), second.net->first->weight).scalar_type(),
              masters ? at::kBFloat16 : at::kFloat);
  }
}

/// The average follows masters: its distance from them would otherwise be the weights' rounding.
TEST(MasterWeights, AreAveraged) {
  const TestFolder folder(world());
  Job job(true, folder.path(), 5);
  at::Tensor expected = job.net->first->weight.detach().to(at::kDouble);
  int updates = 0;
  job.trainer->extend("by hand", {1, "iteration"}, [&](Trainer&) {
    ++updates;
    const double decay = std::min(0.9, (1.0 + updates) / (10.0 + updates));
    expected = expected * decay + exact_weight(job.actual(), job.net->first->weight).to(at::kDouble) * (1 - decay);
  });
  EXPECT_EQ(job.trainer->run(), 0);
  for (const auto& [name, tensor] : job.average->tensors()) {
    if (name != "first.weight") continue;
    EXPECT_TRUE(torch::allclose(tensor.to(at::kDouble), expected, 1e-6, 1e-7));
  }
}

TEST(MasterWeights, HalveTheBytes_from_2_ranks) {
  const TestFolder folder(world());
  Job narrow(true, folder.path(), 3), wide(false, folder.path(), 3);
  EXPECT_EQ(narrow.trainer->run(), 0);
  EXPECT_EQ(wide.trainer->run(), 0);
  EXPECT_LT(narrow.trainer->optimizer().bytes_sent(), 0.75 * wide.trainer->optimizer().bytes_sent());
}

/// A master that has changed on one rank, by less than the weight's rounding.
TEST(MasterWeights, OfRanksAreCompared_from_2_ranks) {
  const TestFolder folder(world());
  Job job(true, folder.path(), 5, {.check_parameters = 1});
  job.trainer->extend("change", {2, "iteration"}, [&](Trainer&) {
    const at::Tensor weight = job.net->first->weight;
    if (world()->rank() == 1) exact_weight(job.actual(), weight).view(-1)[0].mul_(1 + 1e-6);
  });
  EXPECT_THAT([&] { static_cast<void>(job.trainer->run()); }, ThrowsMessage<DataError>(HasSubstr("on rank 1 (host ")));
}

TEST(MasterWeights, ExcludeLocalSteps) {
  const TestFolder folder(world());
  EXPECT_THAT([&] { Job(true, folder.path(), 1, {.local_steps = 2}); },
              ThrowsMessage<UsageError>(HasSubstr("local steps")));
}

}  // namespace
}  // namespace mn

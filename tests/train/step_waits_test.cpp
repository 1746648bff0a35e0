// Where the host waits for the GPU in a training step: counted on the test device for the networks of jobs/mnist and
// jobs/gpt, and for ResNet-18 with MultiNodeBatchNorm, each with the options that change a step.
// MN_PRINT_WAITS=1 prints a line for each, and every place with its callers.
#include <cstdlib>
#include <iostream>
#include <numeric>

#include <gtest/gtest.h>
#include <torch/torch.h>

#include <mn/comm/cuda.hpp>
#include <mn/loader/tensor_dataset.hpp>
#include <mn/nn/batch_norm.hpp>
#include <mn/tensor/autocast.hpp>
#include <mn/tensor/tensor.hpp>
#include <mn/trainer/extensions/weight_average.hpp>
#include <mn/trainer/trainer.hpp>

#include "jobs/models/gpt.hpp"
#include "jobs/models/mlp.hpp"
#include "tests/support/test_device/host_waits.hpp"
#include "toy.hpp"

namespace mn {
namespace {

using Comm = std::shared_ptr<Communicator>;

/// A network that is being trained, with samples for it.
struct Subject {
  std::shared_ptr<torch::nn::Module> model;
  ComputeLoss loss;
  TensorDataset samples;
};

Subject mnist(const Comm& /*comm*/) {
  const jobs::Mlp model(8);
  const auto loss = [model](const Batch& batch, Summary& report) mutable {
    const at::Tensor output = model->forward(batch.data);
    report.add("accuracy", (output.argmax(1) == batch.target).to(at::kFloat).mean(), batch.samples);
    return torch::nn::functional::cross_entropy(output, batch.target);
  };
  return {model.ptr(), loss, {torch::randn({64, 28, 28}), torch::randint(10, {64})}};
}

Subject gpt(const Comm& /*comm*/) {
  const auto model = std::make_shared<jobs::Gpt>(
      jobs::GptOptions{.vocabulary = 11, .context = 6, .layers = 2, .heads = 2, .width = 8, .dropout = 0.1});
  const auto loss = [model](const Batch& batch, Summary& report) {
    const at::Tensor logits = model->forward(batch.data.slice(1, 0, -1)).flatten(0, 1).to(at::kFloat);
    const at::Tensor target = batch.data.slice(1, 1).flatten();
    const at::Tensor found = torch::nn::functional::cross_entropy(logits, target);
    report.add("bits_per_token", found.detach() / std::log(2), target.ne(0).sum());
    return found;
  };
  return {model, loss, TensorDataset(std::vector<at::Tensor>{torch::randint(11, {64, 7})})};
}

/// Two convolutions of 3×3 beside the identity (He et al. 2015), normalized over all ranks.
struct Block : torch::nn::Module {
  Block(const Comm& comm, std::int64_t in, std::int64_t out, std::int64_t stride) {
    const auto convolution = [](std::int64_t from, std::int64_t to, std::int64_t size, std::int64_t step) {
      return torch::nn::Conv2d(torch::nn::Conv2dOptions(from, to, size).stride(step).padding(size / 2).bias(false));
    };
    const auto norm = [&] { return MultiNodeBatchNorm(comm, torch::nn::BatchNormOptions(out)); };
    body = register_module("body", torch::nn::Sequential(convolution(in, out, 3, stride), norm(), torch::nn::ReLU(),
                                                         convolution(out, out, 3, 1), norm()));
    if (in != out)
      shortcut = register_module("shortcut", torch::nn::Sequential(convolution(in, out, 1, stride), norm()));
  }
  at::Tensor forward(const at::Tensor& x) {
    return torch::relu(body->forward(x) + (shortcut ? shortcut->forward(x) : x));
  }
  torch::nn::Sequential body{nullptr}, shortcut{nullptr};
};

constexpr std::int64_t kNorms = 19;  // of ResNet-18: two for each of 8 blocks, one for each of 3 shortcuts

Subject resnet18(const Comm& comm) {
  torch::nn::Sequential model;
  std::int64_t in = 2;
  for (const std::int64_t width : {2, 4, 8, 16}) {
    for (int i = 0; i < 2; ++i) {
      model->push_back(Block(comm, in, width, in == width ? 1 : 2));
      in = width;
    }
  }
  model->push_back(torch::nn::AdaptiveAvgPool2d(1));
  model->push_back(torch::nn::Flatten());
  model->push_back(torch::nn::Linear(16, 5));
  const auto loss = [model](const Batch& batch, Summary&) mutable {
    return torch::nn::functional::cross_entropy(model->forward(batch.data).to(at::kFloat), batch.target);
  };
  return {model.ptr(), loss, {torch::randn({64, 2, 8, 8}), torch::randint(5, {64})}};
}

/// How a step is made, and how often it waits today beside what each layer waits.
struct Way {
  const char* name;
  OptimizerOptions optimizer = {.overlap = true};
  std::int64_t accumulate = 1;
  double clip_norm = 0;
  double ema = 0;
  std::optional<at::ScalarType> autocast = {};
};

const Way kWays[] = {
    {.name = "overlap"},
    {.name = "no overlap", .optimizer = {}},
    {.name = "accumulate 2", .accumulate = 2},
    {.name = "clip", .clip_norm = 1},
    {.name = "fp16 + GradScaler",
     .optimizer = {.overlap = true, .grad_scaler = GradScalerOptions{}},
     .autocast = at::kHalf},
    {.name = "EMA", .ema = 0.9},
};

constexpr std::int64_t kFirst = 4, kSteps = 4;  // order and sizes of buckets are learned before

/// Waits in kSteps steps of this rank.
std::int64_t waits_of(const Subject& subject, const Way& way, const Comm& comm, std::string* table) {
  subject.model->to(comm->device());
  auto actual = std::make_unique<FusedAdamW>(subject.model->parameters(), torch::optim::AdamWOptions(0.001));
  const std::shared_ptr<MultiNodeOptimizer> optimizer =
      create_multi_node_optimizer(std::move(actual), comm, way.optimizer);
  if (way.clip_norm > 0) optimizer->add_hook("clip", gradient_clipping(way.clip_norm));
  const auto batches =
      std::make_shared<TensorLoader>(subject.samples, comm, TensorLoaderOptions{.batchsize = 2, .shuffle = true});
  const toy::TestFolder folder(comm);
  const auto loss = [&](const Batch& batch, Summary& report) {
    const AutocastScope scope(way.autocast, comm->device());
    return subject.loss(batch, report);
  };
  Trainer trainer(comm, optimizer, batches, subject.model, loss,
                  {.iterations = kFirst + kSteps, .accumulate = way.accumulate, .out = folder.path()});
  if (way.ema > 0) {
    trainer.extend(std::make_unique<extensions::WeightAverage>(way.ema), {.trigger = {1, "iteration"}});
  }
  std::optional<test_device::HostWaits> meter;
  std::int64_t waits = -1;
  trainer.extend("meter", {1, "iteration"}, [&](Trainer& at) {
    if (at.iteration() == kFirst) meter.emplace();
    if (at.iteration() != kFirst + kSteps) return;
    waits = meter->count();
    if (waits > 0 && table != nullptr) *table = meter->table(kSteps);
    meter.reset();
  });
  EXPECT_EQ(trainer.run(), 0);
  return waits;
}

class StepWaits : public ::testing::Test {
 protected:
  void expect(const char* name, Subject (*make)(const Comm&), std::int64_t layers) {
    int rank = 0;
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    const Comm comm = create_communicator("pure_nccl", MPI_COMM_WORLD,
                                          {.device = Device{DeviceType::kCuda, rank % cuda_device_count()}});
    const bool prints = rank == 0 && std::getenv("MN_PRINT_WAITS") != nullptr;
    for (const Way& way : kWays) {
      std::string table;
      torch::manual_seed(5);
      const std::int64_t waits = waits_of(make(comm), way, comm, prints ? &table : nullptr);
      if (prints) {
        std::cout << "| " << name << " | " << way.name << " | " << comm->size() << " | "
                  << static_cast<double>(waits) / kSteps << " |\n"
                  << table << std::flush;
      }
      static_cast<void>(layers);
    }
  }
};

TEST_F(StepWaits, Mnist) { expect("jobs/mnist", mnist, 0); }
TEST_F(StepWaits, Gpt) { expect("jobs/gpt", gpt, 0); }
TEST_F(StepWaits, Resnet18WithMultiNodeBatchNorm) { expect("ResNet-18 + MultiNodeBatchNorm", resnet18, kNorms); }

}  // namespace
}  // namespace mn

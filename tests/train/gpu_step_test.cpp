// A whole training step on GPUs gives what it gives on CPUs: a convolutional network with batch normalization over all
// ranks, uneven minibatches, a Trainer with its options. On the test device with other delays each time.
#include <gtest/gtest.h>
#include <torch/torch.h>

#include <mn/comm/cuda.hpp>
#include <mn/loader/tensor_dataset.hpp>
#include <mn/nn/batch_norm.hpp>
#include <mn/tensor/autocast.hpp>
#include <mn/tensor/tensor.hpp>
#include <mn/trainer/extensions/weight_average.hpp>
#include <mn/trainer/trainer.hpp>

#include "toy.hpp"

namespace mn {
namespace {

struct Net : torch::nn::Module {
  explicit Net(const std::shared_ptr<Communicator>& comm) : norm(comm, torch::nn::BatchNormOptions(4)) {
    torch::manual_seed(7);
    convolution = register_module("convolution", torch::nn::Conv2d(torch::nn::Conv2dOptions(2, 4, 3).padding(1)));
    register_module("norm", norm);
    linear = register_module("linear", torch::nn::Linear(4, 3));
    unused = register_module("unused", torch::nn::Linear(2, 2));
  }
  at::Tensor forward(const at::Tensor& x) { return linear->forward(torch::relu(norm(convolution(x))).mean({2, 3})); }
  torch::nn::Conv2d convolution{nullptr};
  MultiNodeBatchNorm norm;
  torch::nn::Linear linear{nullptr}, unused{nullptr};
};

struct Way {
  const char* name;
  OptimizerOptions optimizer = {};
  std::int64_t accumulate = 1;
  double clip_norm = 0;
  double ema = 0;
  std::optional<at::ScalarType> autocast = {};
  double tolerance = 1e-5;
};

void PrintTo(const Way& way, std::ostream* out) { *out << way.name; }

TensorDataset samples() {
  torch::manual_seed(11);
  return {torch::randn({22, 2, 5, 5}), torch::randint(3, {22})};
}

/// Weights, running statistics and averaged weights after two epochs, whose last minibatches are short.
at::Tensor trained(const char* backend, Device device, const Way& way) {
  const auto comm = create_communicator(backend, MPI_COMM_WORLD, {.device = device});
  const auto net = std::make_shared<Net>(comm);
  net->to(comm->device());
  auto actual = std::make_unique<FusedAdamW>(net->parameters(), torch::optim::AdamWOptions(0.01));
  const std::shared_ptr<MultiNodeOptimizer> optimizer =
      create_multi_node_optimizer(std::move(actual), comm, way.optimizer);
  if (way.clip_norm > 0) optimizer->add_hook("clip", gradient_clipping(way.clip_norm));
  const auto batches = std::make_shared<TensorLoader>(
      samples(), comm, TensorLoaderOptions{.batchsize = 12 / comm->size(), .shuffle = true, .even_last = false});
  const toy::TestFolder folder(comm);
  const auto loss = [&](const Batch& batch, Summary& report) {
    const AutocastScope scope(way.autocast, comm->device());
    const at::Tensor scores = net->forward(batch.data);
    report.add("accuracy", scores.argmax(1).eq(batch.target).to(at::kFloat).mean(), static_cast<double>(batch.samples));
    return torch::nn::functional::cross_entropy(scores, batch.target);
  };
  Trainer trainer(comm, optimizer, batches, net, loss,
                  {.epochs = 2, .accumulate = way.accumulate, .out = folder.path()});
  extensions::WeightAverage* average = nullptr;
  if (way.ema > 0) {
    average = &trainer.extend(std::make_unique<extensions::WeightAverage>(way.ema), {.trigger = {1, "iteration"}});
  }
  EXPECT_EQ(trainer.run(), 0);
  std::vector<at::Tensor> all;
  for (const auto& parameter : net->parameters()) all.push_back(parameter.detach().flatten());
  for (const auto& buffer : net->buffers()) all.push_back(buffer.flatten().to(at::kFloat));
  if (average != nullptr) {
    for (const auto& [name, tensor] : average->tensors()) all.push_back(tensor.flatten());
  }
  const Metrics metrics = trainer.take_observation();
  std::vector<double> reported = {metrics.at("main/loss"), metrics.at("main/accuracy")};
  return torch::cat({torch::cat(all).cpu(), torch::tensor(reported)});
}

class GpuStep : public ::testing::TestWithParam<Way> {};

TEST_P(GpuStep, TrainsAsTheCpuDoes) {
  int rank = 0;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  setenv("NCCL_HOSTID", std::to_string(rank).c_str(), 1);  // ranks may share a GPU
  setenv("NCCL_SOCKET_IFNAME", "lo", 1);
  const at::Tensor on_cpu = trained("flat", {}, GetParam());
  const at::Tensor on_gpu = trained("pure_nccl", {DeviceType::kCuda, rank % cuda_device_count()}, GetParam());
  EXPECT_TRUE(torch::allclose(on_gpu, on_cpu, 1e-3, GetParam().tolerance)) << (on_gpu - on_cpu).abs().max();
}

INSTANTIATE_TEST_SUITE_P(
    Ways, GpuStep,
    ::testing::Values(Way{.name = "plain"}, Way{.name = "overlap", .optimizer = {.overlap = true, .bucket_bytes = 64}},
                      Way{.name = "accumulate", .optimizer = {.overlap = true, .bucket_bytes = 64}, .accumulate = 2},
                      Way{.name = "clip_ema", .optimizer = {.overlap = true}, .clip_norm = 0.05, .ema = 0.9},
                      Way{.name = "double_buffering", .optimizer = {.double_buffering = true}},
                      Way{.name = "local_sgd", .optimizer = {.local_steps = 2}},
                      Way{.name = "scaler", .optimizer = {.overlap = true, .grad_scaler = GradScalerOptions{}}},
                      Way{.name = "bf16", .optimizer = {.overlap = true}, .autocast = at::kBFloat16, .tolerance = 0.1}),
    [](const auto& way) { return std::string(way.param.name); });

}  // namespace
}  // namespace mn

// Training on GPUs gives what training on CPUs gives, whichever way gradients are reduced; batches arrive unchanged.
// Any number of ranks may share one GPU: to NCCL each is then a host of its own. On the test device too.
#include <cstdlib>

#include <c10/core/StreamGuard.h>
#include <c10/core/impl/VirtualGuardImpl.h>
#include <gtest/gtest.h>
#include <torch/torch.h>

#include <mn/checkpoint/background_save.hpp>
#include <mn/checkpoint/checkpoint_reader.hpp>
#include <mn/comm/device/cuda.hpp>
#include <mn/data/memory_dataset.hpp>
#include <mn/loader/loader.hpp>
#include <mn/tensor/tensor.hpp>
#include <mn/trainer/local_sgd.hpp>
#include <mn/trainer/optimizer.hpp>
#include <mn/trainer/summary.hpp>

#include "tests/train/toy.hpp"

namespace mn {
namespace {

int rank_of_job() {
  int rank = 0;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  return rank;
}

class GpuTest : public ::testing::Test {
 protected:
  GpuTest() {
    setenv("NCCL_HOSTID", std::to_string(rank_of_job()).c_str(), 1);
    setenv("NCCL_SOCKET_IFNAME", "lo", 1);
  }
};

/// Parameters after a few steps, in which one parameter has no gradient every other time and ranks have different
/// weights.
at::Tensor trained(const std::shared_ptr<Communicator>& comm, const OptimizerOptions& options) {
  torch::manual_seed(3);
  torch::nn::Sequential net(torch::nn::Linear(17, 33), torch::nn::Tanh(), torch::nn::Linear(33, 65));
  torch::nn::Linear last(65, 3);
  const c10::Device device(comm->device());
  net->to(device);
  last->to(device);
  std::vector<at::Tensor> parameters = net->parameters();
  for (const auto& parameter : last->parameters()) parameters.push_back(parameter);
  const auto optimizer = create_multi_node_optimizer(
      std::make_unique<torch::optim::SGD>(parameters, torch::optim::SGDOptions(0.1).momentum(0.9)), comm, options);
  for (int step = 0; step < 8; ++step) {
    const at::Tensor x = torch::sin(torch::arange(8 * 17).reshape({8, 17}) * (step + 1) + comm->rank()).to(device);
    optimizer->zero_grad();
    at::Tensor y = net->forward(x);
    if (step % 2 == 0) y = last->forward(y);
    y.pow(2).mean().backward();
    optimizer->step(8 - (step == 5 ? comm->rank() : 0));
  }
  std::vector<at::Tensor> flat;
  for (const auto& parameter : parameters) flat.push_back(parameter.detach().flatten().cpu());
  return torch::cat(flat);
}

class GpuTraining : public GpuTest, public ::testing::WithParamInterface<OptimizerOptions> {};

TEST_P(GpuTraining, TrainsAsTheCpuDoes) {
  const Device gpu{DeviceType::kCuda, rank_of_job() % cuda_device_count()};
  const double tolerance = GetParam().compression.kind == Compression::kNone ? 1e-5 : 1e-3;  // roundings of fewer bits
  const auto on_cpu = trained(create_communicator("flat", MPI_COMM_WORLD, {.device = Device{}}), GetParam());
  for (const char* backend : {"pure_nccl", "non_cuda_aware", "flat"}) {
    const auto on_gpu = trained(create_communicator(backend, MPI_COMM_WORLD, {.device = gpu}), GetParam());
    EXPECT_TRUE(torch::allclose(on_gpu, on_cpu, 1e-4, tolerance)) << backend;
  }
}

INSTANTIATE_TEST_SUITE_P(
    Ways, GpuTraining,
    ::testing::Values(OptimizerOptions{}, OptimizerOptions{.overlap = true, .bucket_bytes = 1024},
                      OptimizerOptions{.double_buffering = true},
                      OptimizerOptions{.overlap = true, .compression = {.kind = Compression::kBf16}},
                      OptimizerOptions{.double_buffering = true, .compression = {.kind = Compression::kFp16}},
                      OptimizerOptions{.overlap = true, .compression = {.kind = Compression::kPowerSgd}}));

/// Computed on the current stream for some time.
at::Tensor late_one(c10::Device device) {
  const std::int64_t side = device.is_cuda() ? 4096 : 64;  // the test device is late by itself
  at::Tensor ones = torch::ones({side, side}, torch::TensorOptions(device));
  for (int k = 0; k < 10; ++k) ones = ones.mm(ones).div_(side);
  return ones[0][0];
}

/// Tensors that the current stream writes late: calls begin after that.
TEST_F(GpuTest, CallsFollowTheCurrentStream) {
  const Device gpu{DeviceType::kCuda, rank_of_job() % cuda_device_count()};
  const c10::Device device(gpu);
  const c10::StreamGuard guard(c10::impl::VirtualGuardImpl(device.type()).getStreamFromGlobalPool(device));
  const auto options = torch::TensorOptions(device);
  for (const char* backend : {"pure_nccl", "non_cuda_aware", "flat"}) {
    const auto comm = create_communicator(backend, MPI_COMM_WORLD, {.device = gpu});
    const auto expect = [&](const at::Tensor& tensor, double value) {
      EXPECT_TRUE(tensor.cpu().eq(value).all().item<bool>()) << backend << ": " << tensor[0];
    };
    at::Tensor sum = torch::zeros({1000}, options).add_(late_one(device));
    comm->allreduce(sum);
    expect(sum, comm->size());
    at::Tensor weights = torch::zeros({1000}, options).add_(late_one(device) * (comm->rank() + 3));
    comm->broadcast_data(std::vector<at::Tensor>{weights});
    expect(weights, 3);
    weights.mutable_grad() = torch::zeros({1000}, options).add_(late_one(device) * comm->size());
    comm->allreduce_grad(std::vector<at::Tensor>{weights});
    expect(weights.grad(), comm->size());
    LocalSgd local({weights}, comm, 1, 0.0, nullptr);
    weights.add_(late_one(device) * comm->size());
    (void)local.step(StepWeight{});
    expect(weights, 3 + comm->size());
  }
}

/// With memory that was made beforehand or holds an earlier save; transposed tensors too.
TEST_F(GpuTest, ASaveInTheBackgroundHoldsWhatTensorsHeldWhenItBegan) {
  const Device gpu{DeviceType::kCuda, rank_of_job() % cuda_device_count()};
  const c10::Device device(gpu);
  const auto comm = create_communicator("flat", MPI_COMM_WORLD, {.device = gpu});
  const toy::TestFolder folder(comm);
  BackgroundSave saving;
  saving.prepare(*comm, {{}, {{"shared", torch::empty({1 << 20})}}, {}, {{"own", torch::empty({5})}}});
  for (int round = 1; round <= 3; ++round) {
    const auto path = folder.path() / std::to_string(round);
    at::Tensor shared = torch::zeros({1 << 10, 1 << 10}, torch::TensorOptions(device)).t();
    at::Tensor own = torch::zeros({5}, torch::TensorOptions(device));
    own.add_(late_one(device) * round);
    shared.add_(own[0]);
    saving.begin(*comm, path, {{}, {{"shared", shared}}, {}, {{"own", own}}});
    shared.fill_(-1);
    own.fill_(-1);
    while (!saving.advance()) continue;
    const auto reader = CheckpointReader::open(*comm, path.string(), folder.path());
    at::Tensor read = torch::empty({1 << 10, 1 << 10});
    reader->read("", {{"shared", read}});
    EXPECT_TRUE(read.eq(round).all().item<bool>()) << round;
    EXPECT_TRUE(reader->own().front().second.eq(round).all().item<bool>()) << round;
  }
}

TEST_F(GpuTest, SavesInTheBackgroundCopyToPageLockedMemory) {
  const Device gpu{DeviceType::kCuda, rank_of_job() % cuda_device_count()};
  cuda_set_device(gpu.index);
  at::globalContext().lazyInitDevice(c10::Device(gpu).type());
  CopyMemory memory;
  memory.reserve(1000, gpu);
  EXPECT_TRUE(torch::from_blob(memory.bytes().data(), {1000}, torch::kByte).is_pinned());
}

TEST(GpuLoader, BatchesArriveUnchanged) {
  ByteBuffer data;
  std::vector<std::int64_t> labels;
  for (int i = 0; i < 1000; ++i) {
    labels.push_back(i);
    for (int k = 0; k < 49; ++k) data.push_back(static_cast<std::byte>((i * 31 + k) % 256));
  }
  const auto dataset =
      std::make_shared<const MemoryDataset>(labeled({.shape = {49}}, 1000), labeled_samples(std::move(data), labels));
  const auto batches = [&](Device device) {
    DataLoader loader(dataset, {.batchsize = 64, .shuffle = true, .workers = 3, .prefetch = 4, .device = device});
    std::vector<at::Tensor> all;
    while (auto batch = loader.next()) {
      EXPECT_EQ(batch->data.device(), c10::Device(device));
      // Used at once, on the current stream. Whole numbers: their sums are exact in any order.
      all.push_back(((batch->data * 255).round().sum(1) + batch->target).cpu());
    }
    return torch::cat(all);
  };
  EXPECT_TRUE(batches({DeviceType::kCuda, rank_of_job() % cuda_device_count()}).equal(batches({})));
}

TEST_F(GpuTest, ASummaryKeepsEachKindAndItsOwnCopies) {
  const c10::Device device(Device{DeviceType::kCuda, rank_of_job() % cuda_device_count()});
  const auto on_device = [&](double value) { return torch::tensor(value).to(device); };
  const at::Tensor first = on_device(-2), second = on_device(3);
  Summary summary, all;
  for (const at::Tensor& value : {first, second}) {
    summary.add("mean", value, on_device(2));
    summary.add_sum("sum", value);
    summary.add_min("least", value);
    summary.add_max("most", value);
  }
  const Summary copy = summary.copied();
  second.fill_(100);  // as the next step does
  all.merge(copy, "main/");
  EXPECT_EQ(all.mean(), (Metrics{{"main/least", -2}, {"main/mean", 0.5}, {"main/most", 3}, {"main/sum", 1}}));
}

}  // namespace
}  // namespace mn

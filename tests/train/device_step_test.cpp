// A training step on a device, whole: it computes what the CPU's does, whatever order the device's work takes, and the
// host waits for nothing.
#include <cmath>
#include <functional>
#include <limits>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include <c10/core/StreamGuard.h>
#include <c10/core/impl/VirtualGuardImpl.h>
#include <gmock/gmock.h>
#include <torch/torch.h>

#include <mn/comm/device/cuda.hpp>
#include <mn/core/error.hpp>
#include <mn/data/memory_dataset.hpp>
#include <mn/loader/loader.hpp>
#include <mn/nn/collectives.hpp>
#include <mn/nn/fixed_forms.hpp>
#include <mn/optimizers/fused_adam.hpp>
#include <mn/optimizers/fused_sgd.hpp>
#include <mn/optimizers/grad_scaler.hpp>
#include <mn/optimizers/lamb.hpp>
#include <mn/optimizers/lars.hpp>
#include <mn/tensor/tensor.hpp>
#include <mn/trainer/optimizer.hpp>

#include "tests/support/operator_count.hpp"
#include "tests/support/stand_in_gpu/calls.hpp"
#include "tests/support/test_device/test_device.hpp"
#include "tests/support/variable.hpp"
#include "tests/train/device_nets.hpp"

namespace mn {
namespace {

using test::make;
using test::MakeOptimizer;

struct Way {
  std::string name;
  MakeOptimizer optimizer = make<FusedAdamW>(torch::optim::AdamWOptions(0.01));
  OptimizerOptions options = {};
  int parts = 1;            // minibatches of a step
  bool announces = true;    // announce_step()
  bool unused = false;      // the last layer has no gradient every other step
  double clip = 0;          // a hook
  double tolerance = 2e-5;  // relative to the norm of all parameters
  int overflow = -1;        // the step in which rank 0's loss is infinite
  int waits = 0;            // of the host in a step
  bool resnet18 = false;    // the network
  bool registered = false;  // gradients lie in memory that NCCL has registered
};
void PrintTo(const Way& way, std::ostream* out) { *out << way.name; }

constexpr GradScalerOptions kScaling = {.init_scale = 1024, .growth_interval = 3};
constexpr int kWarmUp = 3;
constexpr int kSteps = 6;

class Training {
 public:
  Training(const Way& way, std::shared_ptr<Communicator> given)
      : way_(way), comm_(std::move(given)), device_(comm_->device()) {
    way.resnet18 ? void(net_ = std::make_shared<test::ResNet18>(comm_))
                 : void(net_ = std::make_shared<test::Net>(comm_));
    net_->to(device_);
    optimizer_ = create_multi_node_optimizer(way.optimizer(net_->parameters()), comm_, way.options);
    if (way.clip > 0) optimizer_->add_hook("clip", gradient_clipping(way.clip));
    // The samples of all steps are on the device before: their copies wait.
    for (int i = 0; i < (kWarmUp + kSteps) * way.parts; ++i) {
      const std::int64_t side = way.resnet18 ? 16 : 6;
      const at::Tensor pixels = torch::arange(4 * side * side).reshape({4, 1, side, side});
      const at::Tensor x = torch::sin(pixels * (i + 1) + comm_->rank());
      inputs_.push_back(x.to(device_));
      targets_.push_back(torch::arange(4).add(i).remainder(3).to(device_));
    }
  }

  void steps(int count) {
    for (int k = 0; k < count; ++k) step();
  }
  /// Losses of all steps and the parameters, on the CPU.
  at::Tensor result() {
    optimizer_->synchronize();
    std::vector<at::Tensor> all = losses_;
    for (const auto& parameter : net_->parameters()) all.push_back(parameter.detach());
    for (const auto& buffer : net_->buffers()) all.push_back(buffer.to(torch::kFloat));
    if (const GradScaler* scaler = optimizer_->scaler()) {
      all.push_back(torch::tensor({scaler->scale() / 1024, static_cast<double>(scaler->skipped())}).to(torch::kFloat));
    }
    for (at::Tensor& each : all) each = each.flatten().cpu();
    return torch::cat(all);
  }

 private:
  void step() {
    optimizer_->zero_grad();
    for (int part = 0; part < way_.parts; ++part) {
      const bool is_last = part == way_.parts - 1;
      const auto more = is_last ? nullptr : optimizer_->no_sync();
      const std::size_t i = static_cast<std::size_t>(step_ * way_.parts + part) % inputs_.size();
      const at::Tensor scores = net_->forward(inputs_[i], !way_.unused || step_ % 2 == 0);
      at::Tensor loss = torch::nn::functional::cross_entropy(scores, targets_[i]);
      losses_.push_back(loss.detach());
      if (step_ == way_.overflow && comm_->rank() == 0) loss = loss * std::numeric_limits<double>::infinity();
      const at::Tensor weighted = optimizer_->scale_loss(loss, 4, way_.parts);
      if (is_last && way_.announces) optimizer_->announce_step(4 * way_.parts);
      weighted.backward();
    }
    optimizer_->step(4 * way_.parts);
    ++step_;
  }

  const Way& way_;
  std::shared_ptr<Communicator> comm_;
  c10::Device device_;
  std::shared_ptr<test::Model> net_;
  std::unique_ptr<MultiNodeOptimizer> optimizer_;
  std::vector<at::Tensor> inputs_, targets_, losses_;
  int step_ = 0;
};

std::shared_ptr<Communicator> on_device() {
  int rank = 0;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  return create_communicator("pure_nccl", MPI_COMM_WORLD,
                             {.device = Device{DeviceType::kCuda, rank % cuda_device_count()}});
}

/// Waits for the device but for those of the thread that watches NCCL's work: the step goes on meanwhile.
std::vector<test_device::HostWait> waits_of_steps() {
  auto waits = test_device::take_host_waits();
  std::erase_if(waits,
                [](const auto& wait) { return test_device::describe({wait}).find("run_watch") != std::string::npos; });
  return waits;
}

class DeviceStep : public ::testing::TestWithParam<Way> {};

TEST_P(DeviceStep, ComputesWhatTheCpuDoes) {
  const test::Variable windows("STAND_IN_WINDOWS", "1");
  const test::Variable registers("MN_NCCL_WINDOWS", GetParam().registered ? "on" : "off");
  Training on_cpu(GetParam(), create_communicator("flat", MPI_COMM_WORLD, {.device = Device{}}));
  Training late(GetParam(), on_device());
  on_cpu.steps(kWarmUp + kSteps);
  late.steps(kWarmUp + kSteps);
  const at::Tensor expected = on_cpu.result();
  const double difference = ((late.result() - expected).norm() / expected.norm()).item<double>();
  EXPECT_LT(difference, GetParam().tolerance);
}

TEST_P(DeviceStep, LetsTheHostGoOn) {
  static std::set<std::string> done;  // once: other delays, for which the program is repeated, change nothing here
  if (!done.insert(GetParam().name).second) return;
  Training training(GetParam(), on_device());
  training.steps(kWarmUp);
  static_cast<void>(test_device::take_host_waits());
  training.steps(kSteps);
  const auto waits = waits_of_steps();
  EXPECT_EQ(std::ssize(waits), GetParam().waits * kSteps) << test_device::describe(waits);
}

std::vector<Way> ways() {
  using torch::optim::SGDOptions;
  const SGDOptions momentum = SGDOptions(0.05).momentum(0.9);
  return {
      {.name = "overlap"},
      {.name = "direct", .options = {.overlap = false}},
      {.name = "buckets", .options = {.overlap = true, .bucket_bytes = 64}},
      {.name = "copies", .options = {.overlap = true, .bucket_bytes = 64}, .announces = false},
      {.name = "unused", .options = {.overlap = true, .bucket_bytes = 64}, .unused = true},
      {.name = "registered", .options = {.overlap = true, .bucket_bytes = 64}, .registered = true},
      {.name = "accumulate", .parts = 2},
      {.name = "clip", .clip = 0.1},
      {.name = "clip_direct", .options = {.overlap = false}, .clip = 0.1},
      {.name = "double_buffering", .options = {.double_buffering = true}},
      {.name = "bf16", .options = {.compression = {.kind = Compression::kBf16}}, .tolerance = 1e-2},
      {.name = "sgd", .optimizer = make<FusedSgd>(momentum)},
      {.name = "resnet18", .optimizer = make<FusedSgd>(SGDOptions(0.01)), .resnet18 = true},
      {.name = "lars", .optimizer = make<Lars>(momentum)},
      {.name = "lamb", .optimizer = make<Lamb>(torch::optim::AdamWOptions(0.01))},
      {.name = "grad_scaler", .options = {.grad_scaler = kScaling}, .overflow = 4},
      {.name = "grad_scaler_first", .options = {.grad_scaler = kScaling}, .overflow = 0},
      {.name = "grad_scaler_sgd",
       .optimizer = make<FusedSgd>(momentum),
       .options = {.grad_scaler = kScaling},
       .overflow = 0},
      // Here the host decides whether the step is made.
      {.name = "grad_scaler_lamb",
       .optimizer = make<Lamb>(torch::optim::AdamWOptions(0.01)),
       .options = {.grad_scaler = kScaling},
       .overflow = 4,
       .waits = 1},
  };
}

INSTANTIATE_TEST_SUITE_P(Ways, DeviceStep, ::testing::ValuesIn(ways()),
                         [](const auto& test) { return test.param.name; });

/// Bucket sizes are compared by the device's times, for which the host waits. Then it waits no more.
TEST(DeviceTuning, Ends) {
  const Way way = {.name = "tuned", .options = {.overlap = true}};
  Training training(way, on_device());
  training.steps(40);
  static_cast<void>(test_device::take_host_waits());
  training.steps(kSteps);
  const auto waits = waits_of_steps();
  EXPECT_THAT(waits, ::testing::IsEmpty()) << test_device::describe(waits);
}

/// A program's loop without announce_step(), in which something changes gradients between backward and step().
class DeviceWatch : public ::testing::Test {
 protected:
  void step(const std::function<void()>& change = [] {}) {
    optimizer_->zero_grad();
    (weight_.sum() * (comm_->rank() + 1) + bias_.pow(2).sum()).backward();
    change();
    optimizer_->step();
    const c10::Device device(comm_->device());
    c10::impl::VirtualGuardImpl(device.type()).synchronizeDevice(device.index());
  }

  std::shared_ptr<Communicator> comm_ = on_device();
  at::Tensor weight_ = torch::ones({40, 5}, c10::Device(comm_->device())).requires_grad_();
  at::Tensor bias_ = torch::ones({7}, c10::Device(comm_->device())).requires_grad_();
  std::unique_ptr<MultiNodeOptimizer> optimizer_ =
      create_multi_node_optimizer(make<torch::optim::SGD>(torch::optim::SGDOptions(0.1))({weight_, bias_}), comm_);
};

/// libtorch writes past the count of its own versions.
TEST_F(DeviceWatch, FindsTorchsClippingAStepLater) {
  step();
  step();
  step([&] { torch::nn::utils::clip_grad_norm_(std::vector<at::Tensor>{weight_, bias_}, 0.5); });
  if (comm_->size() == 1) return step();
  EXPECT_THAT([&] { step(); }, ::testing::ThrowsMessage<UsageError>(::testing::HasSubstr("of parameter 0 changed")));
}

TEST_F(DeviceWatch, FindsTheParameterThatChanged) {
  step([&] { bias_.grad().data().mul_(2); });
  if (comm_->size() == 1) return step();
  EXPECT_THAT([&] { step(); }, ::testing::ThrowsMessage<UsageError>(::testing::HasSubstr("of parameter 1 changed")));
}

TEST_F(DeviceWatch, LetsGradientsComeFromAnotherStream) {
  optimizer_->zero_grad();
  const c10::Device device(comm_->device());
  const c10::impl::VirtualGuardImpl guard(device.type());
  guard.synchronizeDevice(device.index());
  at::Tensor loss;
  {
    const c10::StreamGuard on_another(guard.getStreamFromGlobalPool(device));
    loss = weight_.sum() * (comm_->rank() + 1) + bias_.pow(2).sum();
  }
  loss.backward();
  optimizer_->step();
  EXPECT_TRUE(weight_.allclose(torch::full_like(weight_, 1 - 0.1 * (comm_->size() + 1) / 2)));
  EXPECT_TRUE(bias_.allclose(torch::full_like(bias_, 0.8)));
}

TEST_F(DeviceWatch, LetsGradientsBeNaNZeroedOrScaledOnPurpose) {
  step([&] { weight_.grad().data().zero_(); });
  step([&] { optimizer_->scale_gradients(0.5); });
  {
    const at::NoGradGuard no_grad;
    bias_.fill_(std::numeric_limits<float>::quiet_NaN());
  }
  for (int k = 0; k < 3; ++k) step();
}

/// Counts kernels: libtorch's operators on the device, and mn's own. NCCL's kernels do not count.
class Launches {
 public:
  [[nodiscard]] long count() const { return operators_.all().calls + kernels_of_mn(); }
  [[nodiscard]] std::string text() const {
    return std::to_string(kernels_of_mn()) + " kernels of mn, " + operators_.text();
  }

 private:
  /// Each operator of the test device is a call of cudaLaunchKernel too.
  static long own() { return stand_in::calls_of("cudaLaunchKernel") - test_device::enqueued(); }
  [[nodiscard]] long kernels_of_mn() const { return own() - own_before_; }

  test::OperatorCount operators_{c10::kPrivateUse1};
  long own_before_ = own();
};

class DeviceLaunches : public ::testing::Test {
 protected:
  DeviceLaunches() {
    for (int i = 0; i < 148; ++i) {  // as many as GPT-2 124M has
      parameters_.push_back(torch::ones({3 + i % 5, 7}, c10::Device(comm_->device())).requires_grad_());
    }
  }
  void backward() {
    at::Tensor loss = torch::zeros({}, c10::Device(comm_->device()));
    for (const at::Tensor& parameter : parameters_) loss = loss + parameter.mul(comm_->rank() + 1).sum();
    loss.backward();
  }
  /// The launches that an optimizer adds to a settled step before the update are at most `most`.
  void expect_added_to_a_step(long most, const OptimizerOptions& options) {
    for (const at::Tensor& parameter : parameters_) parameter.mutable_grad().reset();
    std::optional<Launches> plain(std::in_place);
    backward();
    const long without = plain->count();
    plain.reset();
    const auto optimizer =
        create_multi_node_optimizer(make<FusedSgd>(torch::optim::SGDOptions(0.1))(parameters_), comm_, options);
    for (int step = 0; step < 4; ++step) {
      optimizer->zero_grad();
      std::optional<Launches> with(std::in_place);
      optimizer->announce_step(1);
      backward();
      static_cast<void>(optimizer->reduce_gradients(1));
      if (step == 3) {
        EXPECT_LE(with->count() - without, most) << with->text();
      }
      with.reset();
      for (const at::Tensor& parameter : parameters_) {
        EXPECT_EQ(reinterpret_cast<std::uintptr_t>(parameter.grad().data_ptr()) % 16, 0U);
      }
      EXPECT_TRUE(parameters_[17].grad().allclose(torch::full_like(parameters_[17], (comm_->size() + 1) / 2.0)));
      optimizer->step(1);
    }
    optimizer->synchronize();
  }

  std::shared_ptr<Communicator> comm_ = on_device();
  std::vector<at::Tensor> parameters_;
};

TEST_F(DeviceLaunches, OfAStepAreFewAndOfOneRankNone) {
  const long most = comm_->size() == 1 ? 0 : 12;
  expect_added_to_a_step(most, {.overlap = false});
  expect_added_to_a_step(most, {.overlap = true, .deterministic = true});
}

TEST_F(DeviceLaunches, OfClippingAreFour) {
  backward();
  double elements = 0;
  for (const at::Tensor& parameter : parameters_) elements += static_cast<double>(parameter.numel());
  const double norm = std::sqrt(elements) * (comm_->rank() + 1);
  for (const double limit : {norm / 4, norm}) {  // the second changes nothing
    const Launches clipping;
    gradient_clipping(limit)(parameters_);
    EXPECT_LE(clipping.count(), 4) << clipping.text();
  }
  for (const at::Tensor& parameter : parameters_) {
    EXPECT_TRUE(parameter.grad().allclose(torch::full_like(parameter, (comm_->rank() + 1) / 4.0)));
  }
}

/// In each of the first steps, beside the parameters: the buffer, and what backward has just made.
TEST(DeviceMemory, GradientsTakeLittleMoreThanTheirSize) {
  const std::shared_ptr<Communicator> comm = on_device();
  std::vector<at::Tensor> parameters;
  for (int i = 0; i < 100; ++i) {
    parameters.push_back(torch::ones({16, 1024}, c10::Device(comm->device())).requires_grad_());
  }
  const double bytes = 100 * 16 * 1024 * sizeof(float);
  const std::size_t before = test_device::memory_use().bytes;
  const auto optimizer = create_multi_node_optimizer(make<FusedSgd>(torch::optim::SGDOptions(0.1))(parameters), comm);
  for (int step = 1; step <= 3; ++step) {
    test_device::reset_peak();
    optimizer->zero_grad();
    at::Tensor loss = torch::zeros({}, c10::Device(comm->device()));
    for (const at::Tensor& parameter : parameters) loss = loss + parameter.mul(2).sum();
    optimizer->announce_step(1);
    loss.backward();
    optimizer->step(1);
    const double peak = static_cast<double>(test_device::memory_use().peak_bytes - before) / bytes;
    EXPECT_LT(peak, comm->size() == 1 ? 1.05 : 1.4) << "step " << step;  // a third may wait to move
  }
}

/// A loader without shuffling makes nothing of an epoch before it is asked: while others train it holds no memory.
TEST(DeviceMemory, AValidationLoaderKeepsNothingBetweenEpochs) {
  const Device device = on_device()->device();
  const auto dataset = std::make_shared<const MemoryDataset>(
      labeled({.shape = {49}}, 100), labeled_samples(ByteBuffer(4900), std::vector<std::int64_t>(100)));
  const std::size_t before = test_device::memory_use().bytes;
  DataLoader loader(dataset, {.batchsize = 16, .shuffle = false, .workers = 2, .device = device});
  for (int epoch = 0; epoch < 2; ++epoch) {
    test_device::reset_peak();
    while (auto batch = loader.next()) static_cast<void>(batch->data.sum());
    EXPECT_GT(test_device::memory_use().peak_bytes, before);
    EXPECT_EQ(test_device::memory_use().bytes, before);
  }
}

TEST(DeviceCalls, OfFixedFormsLetTheHostGoOn) {
  const auto comm = on_device();
  const at::Tensor x = torch::ones({comm->size() * 2, 3}).to(c10::Device(comm->device())).requires_grad_();
  FixedForms forms;
  for (int step = 0; step < kWarmUp; ++step) {
    if (step + 1 == kWarmUp) static_cast<void>(test_device::take_host_waits());
    const auto pass = forms.pass();
    const std::vector<at::Tensor> parts = x.chunk(comm->size());
    at::Tensor loss = all_gather(comm, x).sum() + all_reduce(comm, x).sum() + reduce_scatter(comm, parts).sum();
    for (const at::Tensor& part : alltoall(comm, parts)) loss = loss + part.sum();
    (loss + broadcast(comm, x).sum()).backward();
  }
  EXPECT_EQ(test_device::describe(waits_of_steps()), "");
  const double ranks = comm->size(), root = comm->rank() == 0 ? ranks : 0;
  EXPECT_EQ(x.grad()[0][0].item<double>(), kWarmUp * (ranks + ranks + 1 + 1 + root));
}

/// Of a minibatch in 16 bits, forward reads x twice and writes y; backward reads x and dy twice and writes dx.
TEST(DeviceBatchNorm, MovesEachValueEightTimes) {
  const auto comm = on_device();
  const c10::Device device(comm->device());
  MultiNodeBatchNorm norm(comm, torch::nn::BatchNormOptions(4));
  norm->to(device);
  for (const auto format : {at::MemoryFormat::Contiguous, at::MemoryFormat::ChannelsLast}) {
    const at::Tensor x = torch::ones({8, 4, 32, 32}).to(device, at::kBFloat16).contiguous(format).requires_grad_();
    const at::Tensor dy = torch::ones_like(x);
    const test::OperatorCount operators(c10::kPrivateUse1);
    norm->forward(x).backward(dy);
    EXPECT_LT(operators.all().bytes / static_cast<double>(x.numel()), 16.2) << operators.text();
  }
}

}  // namespace
}  // namespace mn

// resnet50_step: the time of a training step of ResNet-50 on made-up images, as jobs/imagenet makes it, forward,
// backward, reduction and update, with --cuda-graph as one graph; one JSON line for each batch size, as resnet50.py
// prints them. Under mpiexec each rank has its batch, and rates are of all ranks. With host_waits.so preloaded, "waits"
// counts the calls of a step that wait for the GPU, and "waited_ms" is their time.
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <iostream>
#include <string>
#include <vector>

#include <c10/core/impl/VirtualGuardImpl.h>
#include <dlfcn.h>
#include <torch/torch.h>

#include <mn/app/precision.hpp>
#include <mn/app/setup.hpp>
#include <mn/core/error.hpp>
#include <mn/core/json.hpp>
#include <mn/job/job.hpp>
#include <mn/models/models.hpp>
#include <mn/tensor/autocast.hpp>
#include <mn/tensor/modules.hpp>
#include <mn/tensor/tensor.hpp>
#include <mn/trainer/graphed_step.hpp>
#include <mn/trainer/optimizer.hpp>

#include "imagenet/options.hpp"

namespace {

using Clock = std::chrono::steady_clock;
using mn::jobs::ImagenetOptions;

constexpr int kWarmUp = 10;  // cuDNN chooses, overlap tunes its buckets
constexpr int kAlone = 5;    // steps of which each is waited for
constexpr std::int64_t kClasses = 1000;

struct Settings : ImagenetOptions {
  std::string batches = "64,256";
  double seconds = 4;
};

struct Waits {
  long long calls = 0;
  double seconds = 0;
};

Waits waits_so_far() {
  using Ask = long long (*)(double*);
  static const auto ask = reinterpret_cast<Ask>(dlsym(RTLD_DEFAULT, "mn_host_waits"));
  Waits waits;
  if (ask != nullptr) waits.calls = ask(&waits.seconds);
  return waits;
}

double seconds_since(Clock::time_point begin) { return std::chrono::duration<double>(Clock::now() - begin).count(); }

std::vector<std::int64_t> parse_batches(const std::string& text) {
  std::vector<std::int64_t> batches;
  for (std::size_t begin = 0; begin <= text.size(); begin = text.find(',', begin) + 1) {
    const std::int64_t batch = std::atoll(text.c_str() + begin);
    if (batch < 1) throw mn::UsageError("--batches: \"" + text + "\" is not a list of numbers, as 64,256");
    batches.push_back(batch);
    if (text.find(',', begin) == std::string::npos) break;
  }
  return batches;
}

class Training {
 public:
  Training(const Settings& settings, std::int64_t batch, const std::shared_ptr<mn::Communicator>& comm)
      : settings_(settings), comm_(comm), device_(comm->device()), batch_(batch) {
    const auto format = settings.channels_last ? at::MemoryFormat::ChannelsLast : at::MemoryFormat::Contiguous;
    const std::int64_t side = settings.image_size;
    images_ = torch::randn({batch, 3, side, side}).to(device_).contiguous(format);
    target_ = torch::randint(kClasses, {batch}, torch::kLong).to(device_);
    model_ = mn::models::create_model(settings.arch, kClasses);
    model_->to(device_);
    if (settings.channels_last) mn::use_channels_last(*model_);
    optimizer_ = mn::app::create_optimizer(settings, mn::jobs::base_rate(settings), *model_, comm,
                                           mn::app::optimizer_options(settings));
    if (settings.cuda_graph) graph_ = std::make_unique<mn::GraphedStep>(optimizer_);
  }

  /// Collective: the line for this batch size, the same on all ranks but for the waits.
  nlohmann::json measure() {
    for (int i = 0; i < kWarmUp; ++i) step();
    double alone_s = 0;
    double host_s = 0;
    for (int i = 0; i < kAlone; ++i) {
      const auto begin = Clock::now();
      step();
      host_s += seconds_since(begin) / kAlone;
      finish();
      alone_s += seconds_since(begin) / kAlone;
    }
    comm_->allreduce(std::span(&alone_s, 1), mn::ReduceOp::kMax);
    const auto steps = std::clamp<std::int64_t>(static_cast<std::int64_t>(settings_.seconds / alone_s), 2, 10000);
    comm_->barrier();
    const Waits before = waits_so_far();
    const auto begin = Clock::now();
    for (std::int64_t i = 0; i < steps; ++i) step();
    const Waits after = waits_so_far();
    finish();
    double step_s = seconds_since(begin) / static_cast<double>(steps);
    comm_->allreduce(std::span(&step_s, 1), mn::ReduceOp::kMax);
    return {{"who", "mn"},
            {"way", graph_ ? "graph" : "eager"},
            {"ranks", comm_->size()},
            {"batch", batch_},
            {"images_per_second", static_cast<double>(batch_ * comm_->size()) / step_s},
            {"step_ms", step_s * 1e3},
            {"host_ms", host_s * 1e3},
            {"waits", static_cast<double>(after.calls - before.calls) / static_cast<double>(steps)},
            {"waited_ms", (after.seconds - before.seconds) / static_cast<double>(steps) * 1e3}};
  }

 private:
  void step() {
    if (!graph_) return make_step(images_, target_);
    static_cast<void>(graph_->run({images_, target_}, {}, [this](const std::vector<torch::Tensor>& inputs) {
      make_step(inputs[0], inputs[1]);
      return std::vector<torch::Tensor>();
    }));
  }

  void make_step(const torch::Tensor& images, const torch::Tensor& target) {
    optimizer_->zero_grad();
    torch::Tensor loss;
    {
      const mn::AutocastScope autocast(mn::app::autocast_type(settings_.precision), comm_->device());
      loss = torch::nn::functional::cross_entropy(model_->forward(images).to(torch::kFloat), target);
    }
    optimizer_->announce_step(batch_);
    loss.backward();
    optimizer_->step(batch_);
  }

  void finish() const {
    if (device_.is_cuda()) c10::impl::VirtualGuardImpl(device_.type()).synchronizeDevice(device_.index());
  }

  const Settings& settings_;
  std::shared_ptr<mn::Communicator> comm_;
  c10::Device device_;
  std::int64_t batch_;
  torch::Tensor images_, target_;
  std::shared_ptr<mn::models::Classifier> model_;
  std::shared_ptr<mn::MultiNodeOptimizer> optimizer_;
  std::unique_ptr<mn::GraphedStep> graph_;
};

int run(mn::Job& job, int argc, char** argv) {
  Settings settings;
  settings.precision = "bf16";
  settings.channels_last = true;
  settings.overlap = "off";
  mn::Options declared("usage: resnet50_step [options]\nTimes training steps on made-up images.");
  mn::app::add_common_options(declared, settings);
  mn::jobs::declare_options(declared, settings);
  declared.add("batches", settings.batches, "N,…", "samples of a minibatch on each rank, one after the other");
  declared.add("seconds", settings.seconds, "to measure each for", 0, 3600);
  if (!mn::app::parse_options(declared, argc, argv, job.rank())) return 0;
  const auto comm = mn::app::set_up(settings);
  at::globalContext().setBenchmarkCuDNN(true);
  for (const std::int64_t batch : parse_batches(settings.batches)) {
    const auto line = Training(settings, batch, comm).measure();
    if (comm->rank() == 0) std::cout << line.dump() << std::endl;
  }
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  return mn::run_job(argc, argv, [&](mn::Job& job) { return run(job, argc, argv); });
}

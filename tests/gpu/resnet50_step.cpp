// resnet50_step: the time of a training step of ResNet-50 on made-up images, as jobs/imagenet makes it, forward,
// backward, reduction and update, with --cuda-graph as one graph; one JSON line for each batch size, as resnet50.py
// prints them. Under mpiexec each rank has its batch, and rates are of all ranks. With host_waits.so preloaded, "waits"
// counts the calls of a step that wait for the GPU, and "waited_ms" is their time.
#include <memory>
#include <string>
#include <vector>

#include <torch/torch.h>

#include <mn/app/setup.hpp>
#include <mn/core/json.hpp>
#include <mn/job/job.hpp>
#include <mn/models/models.hpp>
#include <mn/tensor/autocast.hpp>
#include <mn/tensor/modules.hpp>
#include <mn/tensor/tensor.hpp>
#include <mn/trainer/graphed_step.hpp>
#include <mn/trainer/optimizer.hpp>

#include "imagenet/options.hpp"
#include "step_timing.hpp"

namespace {

using mn::jobs::ImagenetOptions;

constexpr std::int64_t kClasses = 1000;

struct Settings : ImagenetOptions {
  mn::gpu_steps::TimingOptions timing = {.batches = "64,256"};
};

class Training {
 public:
  Training(const Settings& settings, std::int64_t batch, const std::shared_ptr<mn::Communicator>& comm)
      : settings_(settings), comm_(comm), device_(comm->device()), batch_(batch) {
    const auto format = settings.channels_last ? at::MemoryFormat::ChannelsLast : at::MemoryFormat::Contiguous;
    const std::int64_t side = settings.image_size;
    images_ = torch::randn({batch, 3, side, side}).to(device_).contiguous(format);
    target_ = torch::randint(kClasses, {batch}, torch::kLong).to(device_);
    model_ = mn::models::create_model(settings.arch, kClasses, mn::jobs::network_options(settings));
    model_->to(device_);
    if (settings.channels_last) mn::use_channels_last(*model_);
    optimizer_ = mn::app::create_optimizer(settings, mn::jobs::base_rate(settings), *model_, comm,
                                           mn::app::optimizer_options(settings));
    if (settings.cuda_graph == "on") graph_ = std::make_unique<mn::GraphedStep>(optimizer_);
  }

  /// Collective: the line for this batch size, the same on all ranks but for the waits.
  nlohmann::json measure() {
    auto line =
        mn::gpu_steps::time_steps(*comm_, settings_.timing.seconds, "images_per_second", batch_, [this] { step(); });
    line.update({{"who", "mn"}, {"way", graph_ ? "graph" : "eager"}, {"batch", batch_}});
    return line;
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
  mn::gpu_steps::declare_options(declared, settings.timing);
  if (!mn::app::parse_options(declared, argc, argv, job.rank())) return 0;
  const auto comm = mn::app::set_up(settings);
  at::globalContext().setBenchmarkCuDNN(true);
  mn::gpu_steps::print_lines(settings.timing, *comm,
                             [&](std::int64_t batch) { return Training(settings, batch, comm).measure(); });
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  return mn::run_job(argc, argv, [&](mn::Job& job) { return run(job, argc, argv); });
}

// gpt_step: the time of a training step of GPT-2's 124M network on random tokens, as jobs/gpt makes it: loss and
// metrics, backward, reduction, clipping and update, with --cuda-graph as one graph; one JSON line for each batch size,
// as gpt.py prints them. See step_timing.hpp.
#include <memory>
#include <string>
#include <vector>

#include <torch/torch.h>

#include <mn/app/setup.hpp>
#include <mn/core/json.hpp>
#include <mn/job/job.hpp>
#include <mn/models/gpt.hpp>
#include <mn/tensor/autocast.hpp>
#include <mn/tensor/tensor.hpp>
#include <mn/trainer/graphed_step.hpp>
#include <mn/trainer/optimizer.hpp>

#include "gpt/loss.hpp"
#include "gpt/options.hpp"
#include "step_timing.hpp"

namespace {

struct Settings : mn::jobs::GptSettings {
  Settings() {
    precision = "bf16";
    overlap = "off";
    network.sizes = {.vocabulary = 50304, .context = 1024, .layers = 12, .heads = 12, .width = 768};
  }
  mn::gpu_steps::TimingOptions timing = {.batches = "16,32"};
};

class Training {
 public:
  Training(const Settings& settings, std::int64_t batch, const std::shared_ptr<mn::Communicator>& comm)
      : settings_(settings),
        comm_(comm),
        batch_(batch),
        model_(std::make_shared<mn::models::Gpt>(settings.network.sizes)) {
    const c10::Device device = comm->device();
    const auto& network = settings.network.sizes;
    tokens_ = torch::randint(network.vocabulary, {batch, network.context + 1}, torch::kLong).to(device);
    bytes_of_ = torch::full({network.vocabulary}, 4.0F, device);
    model_->to(device);
    optimizer_ = mn::app::create_optimizer(settings, mn::jobs::base_rate(settings), *model_, comm,
                                           mn::app::optimizer_options(settings));
    if (settings.cuda_graph == "on") graph_ = std::make_unique<mn::GraphedStep>(optimizer_);
  }

  /// Collective: the line for this batch size, the same on all ranks but for the waits.
  nlohmann::json measure() {
    const auto& network = settings_.network.sizes;
    auto line = mn::gpu_steps::time_steps(*comm_, settings_.timing.seconds, "tokens_per_second",
                                          batch_ * network.context, [this] { step(); });
    std::int64_t parameters = 0;
    for (const auto& parameter : model_->parameters()) parameters += parameter.numel();
    line.update({{"who", "mn"},
                 {"way", graph_                          ? "graph"
                         : settings_.precision == "bf16" ? "eager"
                                                         : settings_.precision},
                 {"batch", batch_},
                 {"parameters", parameters},
                 {"layers", network.layers},
                 {"width", network.width},
                 {"context", network.context}});
    return line;
  }

 private:
  void step() {
    if (!graph_) return make_step(tokens_);
    static_cast<void>(graph_->run({tokens_}, {}, [this](const std::vector<torch::Tensor>& inputs) {
      make_step(inputs[0]);
      return std::vector<torch::Tensor>();
    }));
  }

  void make_step(const torch::Tensor& tokens) {
    optimizer_->zero_grad();
    const mn::Batch batch = {.data = tokens, .target = {}, .samples = batch_};
    mn::Summary metrics;
    torch::Tensor loss;
    {
      const mn::AutocastScope autocast(mn::app::autocast_type(settings_.precision), comm_->device());
      loss = mn::jobs::loss_of(*model_, batch, bytes_of_, settings_.loss, metrics).value;
    }
    const torch::Tensor weighted = optimizer_->scale_loss(loss, batch.loss_weight());
    optimizer_->announce_step(batch.loss_weight());
    weighted.backward();
    optimizer_->step(batch.loss_weight());
  }

  const Settings& settings_;
  std::shared_ptr<mn::Communicator> comm_;
  std::int64_t batch_;
  torch::Tensor tokens_, bytes_of_;
  std::shared_ptr<mn::models::Gpt> model_;
  std::shared_ptr<mn::MultiNodeOptimizer> optimizer_;
  std::unique_ptr<mn::GraphedStep> graph_;
};

int run(mn::Job& job, int argc, char** argv) {
  Settings settings;
  mn::Options declared("usage: gpt_step [options]\nTimes training steps on random tokens.");
  mn::app::add_common_options(declared, settings);
  mn::jobs::declare_options(declared, settings);
  declared.add("vocabulary-size", settings.network.sizes.vocabulary, "tokens of the vocabulary", 2, 1 << 30);
  declared.add("context", settings.network.sizes.context, "tokens of a sample", 1, 1 << 20);
  mn::gpu_steps::declare_options(declared, settings.timing);
  if (!mn::app::parse_options(declared, argc, argv, job.rank())) return 0;
  const auto comm = mn::app::set_up(settings);
  mn::gpu_steps::print_lines(settings.timing, *comm,
                             [&](std::int64_t batch) { return Training(settings, batch, comm).measure(); });
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  return mn::run_job(argc, argv, [&](mn::Job& job) { return run(job, argc, argv); });
}

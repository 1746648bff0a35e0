/// jobs/imagenet: trains networks that classify images on any number of ranks, like ChainerMN's ImageNet example.

#include <torch/torch.h>

#include <mn/app/app.hpp>
#include <mn/app/compile.hpp>
#include <mn/models/models.hpp>

#include "imagenet/data.hpp"
#include "imagenet/metrics.hpp"
#include "imagenet/options.hpp"
#include "imagenet/weights.hpp"

namespace {

using mn::jobs::ImagenetData;
using mn::jobs::ImagenetOptions;
using mn::models::Classifier;

/// The mean loss plus the weighted losses of auxiliary heads. `target` has labels, or probabilities of the classes.
torch::Tensor loss_of(const std::vector<torch::Tensor>& heads, const torch::Tensor& target, double smoothing) {
  const auto how = torch::nn::functional::CrossEntropyFuncOptions().label_smoothing(smoothing);
  torch::Tensor loss = torch::nn::functional::cross_entropy(heads.front().to(torch::kFloat), target, how);
  for (std::size_t i = 1; i < heads.size(); ++i) {
    const auto auxiliary = torch::nn::functional::cross_entropy(heads[i].to(torch::kFloat), target, how);
    loss = loss + mn::models::kAuxiliaryWeight * auxiliary;
  }
  return loss;
}

/// Batch normalization cannot train on a channel with a single value. A single small image, as in the last step of an
/// epoch, has such channels, so it passes the network together with its mirror image.
std::vector<torch::Tensor> heads_of(Classifier& model, const torch::Tensor& images, std::int64_t min_size_alone) {
  if (images.size(0) > 1 || images.size(3) >= min_size_alone) return model.forward_heads(images);
  auto heads = model.forward_heads(torch::cat({images, images.flip(3)}));
  for (torch::Tensor& head : heads) head = head.slice(0, 0, 1);
  return heads;
}

/// Returns a function that computes the loss of a minibatch, and adds the samples to `log` unless `log` is null. If
/// `compiled` is empty, the network is not compiled.
mn::ComputeLoss make_loss(const ImagenetOptions& options, const std::shared_ptr<Classifier>& model,
                          const mn::app::CompiledForward& compiled, mn::jobs::SampleLog* log) {
  return [&options, model, compiled, log, alone = mn::models::min_image_size_alone(options.arch)](
             const mn::Batch& batch, mn::Summary& report) {
    const torch::Tensor logits = compiled ? compiled(batch.data) : torch::Tensor();
    const auto heads = logits.defined() ? std::vector{logits} : heads_of(*model, batch.data, alone);
    if (log != nullptr) log->add(batch);
    mn::jobs::add_accuracy(report, heads.front(), mn::jobs::labels_of(batch.target));
    return loss_of(heads, batch.target, options.label_smoothing);
  };
}

void evaluate(Classifier& model, const mn::Batch& batch, mn::Summary& report) {
  const auto logits = model.forward(batch.data).to(torch::kFloat);
  const auto loss = torch::nn::functional::cross_entropy(logits, batch.target);
  report.add("loss", loss, static_cast<double>(batch.samples));
  mn::jobs::add_accuracy(report, logits, batch.target);
}

mn::app::Training make_training(const ImagenetOptions& options, const std::shared_ptr<mn::Communicator>& comm) {
  const mn::Interval usual = options.test ? mn::Interval(10, "iteration") : mn::Interval(1, "epoch");
  const mn::Interval period = mn::app::report_period(options, usual);
  const ImagenetData data = mn::jobs::open_imagenet(options, comm);
  const std::shared_ptr<Classifier> model = mn::app::make_model(options, comm, [&] {
    return mn::models::create_model(options.arch, data.num_classes, mn::jobs::network_options(options));
  });
  // Sharded weights lie one after the other, in row-major order.
  if (options.channels_last && options.shard == "none") mn::use_channels_last(*model);
  mn::app::CompiledForward compiled;
  if (!options.compile.empty()) {
    const auto sizes = mn::jobs::compiler_sizes(options, data.num_classes);
    compiled = mn::app::compile_network(options.compile, options, sizes, *model, comm);
  }
  mn::app::Training training{
      .model = model,
      .train = data.train_batches,
      .validations = data.val,
      .evaluate = [model](const mn::Batch& batch, mn::Summary& report) { evaluate(*model, batch, report); },
      .rate = mn::jobs::base_rate(options),
      .report_every = period,
      .unit = "images",
      .banner = {"Using " + options.arch + " arch", "Num classes: " + std::to_string(data.num_classes),
                 "Num training samples: " + std::to_string(data.train->dataset_size()),
                 "Num validation samples: " + std::to_string(data.val_samples)},
      .layout = mn::jobs::weights_layout(options.arch),
  };
  mn::jobs::SampleLog* log = nullptr;
  if (options.log_samples) log = &training.extend(std::make_unique<mn::jobs::SampleLog>());
  training.loss = make_loss(options, model, compiled, log);
  training.extend(std::make_unique<mn::jobs::ResourceReport>(data.train, period));
  training.extend(std::make_unique<mn::jobs::CorruptLimit>(data.train, options.max_corrupt));
  training.extend(std::make_unique<mn::jobs::CorruptLimit>(data.train, options.max_corrupt),
                  {.trigger = mn::Interval(1, "epoch"), .name = "CorruptLimit/epoch"});
  return training;
}

}  // namespace

int main(int argc, char** argv) {
  ImagenetOptions given;
  mn::Options options(
      "usage: jobs/imagenet [options]\nTrains a network to classify images, as ChainerMN's ImageNet example does.");
  mn::jobs::declare_options(options, given);
  return mn::app::run_training(argc, argv, options, given, [&](const std::shared_ptr<mn::Communicator>& comm) {
    return make_training(given, comm);
  });
}

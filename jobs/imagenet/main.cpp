/// jobs/imagenet: ChainerMN's ImageNet example, convolutional networks trained on any number of ranks.
#include <algorithm>
#include <iostream>

#include <torch/torch.h>

#include <mn/app/precision.hpp>
#include <mn/app/reports.hpp>
#include <mn/app/setup.hpp>
#include <mn/app/weights.hpp>
#include <mn/mn.hpp>
#include <mn/train/extensions/allreduce_persistent.hpp>

#include "imagenet/data.hpp"
#include "imagenet/metrics.hpp"
#include "imagenet/options.hpp"
#include "imagenet/sample_log.hpp"
#include "models/models.hpp"

namespace {

namespace ext = mn::extensions;
using mn::jobs::AutocastScope;
using mn::jobs::Classifier;
using mn::jobs::ImagenetData;
using mn::jobs::ImagenetOptions;

void print_banner(const ImagenetOptions& options, const ImagenetData& data, const mn::Communicator& comm) {
  const std::string rule(42, '=');
  std::cout << rule << "\nNum process (COMM_WORLD): " << comm.size() << "\nUsing "
            << (comm.device().type == mn::DeviceType::kCuda ? "GPUs" : "CPUs") << "\nUsing " << comm.name()
            << " communicator\nUsing " << options.arch << " arch\nNum classes: " << data.num_classes
            << "\nNum training samples: " << data.train->dataset_size()
            << "\nNum validation samples: " << data.val->dataset_size() << "\nNum Minibatch-size: " << options.batchsize
            << "\nNum epoch: " << options.epoch << "\n"
            << rule << std::endl;
}

/// The mean over the samples of the classifier's loss, auxiliary classifiers' included. `target` holds labels, or each
/// class's probability.
torch::Tensor loss_of(const std::vector<torch::Tensor>& heads, const torch::Tensor& target, double smoothing) {
  const auto how = torch::nn::functional::CrossEntropyFuncOptions().label_smoothing(smoothing);
  torch::Tensor loss = torch::nn::functional::cross_entropy(heads.front().to(torch::kFloat), target, how);
  for (std::size_t i = 1; i < heads.size(); ++i) {
    const auto auxiliary = torch::nn::functional::cross_entropy(heads[i].to(torch::kFloat), target, how);
    loss = loss + mn::jobs::kAuxiliaryWeight * auxiliary;
  }
  return loss;
}

/// The logits of each head. A last step may leave a rank with one image. Batch normalization cannot train on one value
/// of a channel, so the mirror image then goes through the network too. It counts nowhere else.
std::vector<torch::Tensor> heads_of(Classifier& model, const torch::Tensor& images, std::int64_t min_size_alone) {
  if (images.size(0) > 1 || images.size(3) >= min_size_alone) return model.forward_heads(images);
  auto heads = model.forward_heads(torch::cat({images, images.flip(3)}));
  for (torch::Tensor& head : heads) head = head.slice(0, 0, 1);
  return heads;
}

/// Forward pass and loss of a minibatch. Counts what was right in `accuracy`, and lists samples in `log` if wanted;
/// both outlive the function.
mn::ComputeLoss make_loss(const ImagenetOptions& options, Classifier& model, mn::Device device,
                          mn::jobs::TrainAccuracy& accuracy, mn::jobs::SampleLog& log) {
  return [&, device, alone = mn::jobs::min_image_size_alone(options.arch)](const mn::Batch& batch, mn::Summary&) {
    const AutocastScope autocast(options.precision, device);
    const auto heads = heads_of(model, batch.data, alone);
    if (options.log_samples) log.add(batch);
    accuracy.add(heads.front(), mn::jobs::labels_of(batch.target));
    return loss_of(heads, batch.target, options.label_smoothing);
  };
}

std::unique_ptr<mn::Evaluator> make_evaluator(const ImagenetOptions& options, const ImagenetData& data,
                                              const std::shared_ptr<Classifier>& model,
                                              const std::shared_ptr<mn::Communicator>& comm) {
  const auto evaluate_batch = [model, precision = options.precision, device = comm->device()](const mn::Batch& batch,
                                                                                              mn::Summary& report) {
    const AutocastScope autocast(precision, device);
    const auto logits = model->forward(batch.data).to(torch::kFloat);
    const auto loss = torch::nn::functional::cross_entropy(logits, batch.target);
    const auto counts = mn::jobs::count_correct(logits, batch.target).to(torch::kDouble) / batch.samples;
    const auto values = torch::cat({loss.view({1}).to(torch::kDouble), counts}).cpu();
    const auto weight = static_cast<double>(batch.samples);
    report.add("loss", values[0].item<double>(), weight);
    report.add("accuracy", values[1].item<double>(), weight);
    report.add("accuracy_top5", values[2].item<double>(), weight);
  };
  auto local = mn::create_evaluator(data.val, model, evaluate_batch, mn::jobs::validation_batches(options));
  return mn::create_multi_node_evaluator(std::move(local), comm);
}

mn::jobs::Reports add_extensions(mn::Trainer& trainer, const ImagenetOptions& options, const ImagenetData& data,
                                 std::unique_ptr<mn::Evaluator> evaluator, mn::Interval period) {
  trainer.extend(std::make_unique<ext::AllreducePersistent>(), {.trigger = period});
  trainer.extend(std::make_unique<mn::jobs::ResourceReport>(data.train, period));
  trainer.extend(std::make_unique<mn::jobs::CorruptLimit>(data.train, options.max_corrupt));
  trainer.extend(std::make_unique<mn::jobs::CorruptLimit>(data.train, options.max_corrupt),
                 {.trigger = mn::Interval(1, "epoch"), .name = "CorruptLimit/epoch"});
  if (options.checkpoint_every != "none") {
    trainer.extend(std::make_unique<ext::AllreducePersistent>(),
                   {.trigger = mn::Interval::parse(options.checkpoint_every), .name = "AllreducePersistent/snapshot"});
  }
  return mn::jobs::add_reports(trainer, options, std::move(evaluator), period);
}

int train(mn::Job& job, int argc, char** argv) {
  ImagenetOptions options;
  mn::Options declared(
      "usage: jobs/imagenet [options]\nTrains a network to classify images, as ChainerMN's ImageNet example does.");
  mn::jobs::declare_options(declared, options);
  if (!mn::jobs::parse_options(declared, argc, argv, job.rank())) return 0;
  mn::jobs::check_options(options);

  const auto comm = mn::jobs::set_up(options);
  const ImagenetData data = mn::jobs::open_imagenet(options, comm);
  const std::shared_ptr<Classifier> model = mn::jobs::create_model(options.arch, data.num_classes);
  mn::jobs::load_initial_weights(options, *model, *comm);
  model->to(comm->device());
  if (options.channels_last) mn::use_channels_last(*model);
  auto evaluator = make_evaluator(options, data, model, comm);
  if (!options.evaluate.empty()) return mn::jobs::evaluate_only(options, *model, *evaluator, *comm);
  const mn::OptimizerOptions how = mn::jobs::optimizer_options(options, *comm);
  const auto optimizer = mn::jobs::create_optimizer(options, mn::jobs::base_rate(options), *model, comm, how);

  const std::int64_t steps = options.epoch * data.train->steps_per_epoch();
  const auto iterations = static_cast<double>((steps + options.accumulate - 1) / options.accumulate);
  const mn::Interval period = mn::jobs::report_period(
      options, options.test ? mn::Interval(std::min(10.0, iterations), "iteration") : mn::Interval(1, "epoch"));
  auto accuracy = std::make_unique<mn::jobs::TrainAccuracy>(period);
  auto samples = std::make_unique<mn::jobs::SampleLog>();
  const auto compute_loss = make_loss(options, *model, comm->device(), *accuracy, *samples);
  mn::Trainer trainer(comm, optimizer, data.train_batches, model, compute_loss,
                      mn::jobs::trainer_options(options, how));
  mn::jobs::write_config(declared, options.out, *comm);
  trainer.extend(std::move(accuracy));
  if (options.log_samples) trainer.extend(std::move(samples));
  const auto reports = add_extensions(trainer, options, data, std::move(evaluator), period);
  if (!options.resume.empty()) trainer.resume(options.resume);

  if (comm->rank() == 0) print_banner(options, data, *comm);
  const int status = trainer.run();
  if (status != 0) return status;
  mn::average_buffers(*model, *comm);
  mn::jobs::save_weights(trainer, reports);
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  return mn::run_job(argc, argv, [&](mn::Job& job) { return train(job, argc, argv); });
}

/// jobs/exported: trains a model that Python has exported, on any number of ranks.
#include <iostream>

#include <torch/torch.h>

#include <mn/app/precision.hpp>
#include <mn/app/reports.hpp>
#include <mn/app/setup.hpp>
#include <mn/app/weights.hpp>
#include <mn/core/file.hpp>
#include <mn/mn.hpp>
#include <mn/train/on_root.hpp>

#include "exported/data.hpp"
#include "exported/options.hpp"

namespace {

namespace ext = mn::extensions;
namespace F = torch::nn::functional;
using mn::jobs::AutocastScope;
using mn::jobs::ExportedOptions;

/// Collective: rank 0 reads the files. What is wrong with them is the same error on every rank.
std::shared_ptr<mn::ExportedModule> read_model(const ExportedOptions& options, mn::Communicator& comm) {
  std::string bytes, evaluation;
  std::shared_ptr<mn::ExportedModule> model;
  const auto make = [&] {
    model = std::make_shared<mn::ExportedModule>(bytes, options.model);
    if (!options.evaluation_model.empty()) model->set_evaluation_graph(evaluation, options.evaluation_model);
    if (!options.validation.empty()) model->require_evaluation_graph();
  };
  const auto read = [&] {
    bytes = mn::read_file(options.model);
    if (!options.evaluation_model.empty()) evaluation = mn::read_file(options.evaluation_model);
    make();
  };
  mn::on_root<mn::DataError>(comm, read, true);
  bytes = comm.bcast_obj(bytes);
  evaluation = comm.bcast_obj(evaluation);
  if (comm.rank() != 0) make();
  if (model->inputs().size() != 1) {
    throw mn::UsageError("--model: " + options.model + " takes " + std::to_string(model->inputs().size()) +
                         " inputs, but jobs/exported has one for it: give it to a program of your own");
  }
  if (comm.rank() == 0 && model->is_exported_for_evaluation()) {
    mn::log_warning(options.model + " was exported in evaluation mode: it trains without dropout, and with the batch " +
                    "statistics as they are; model.train() before torch.export.export changes that");
  }
  return model;
}

/// The model's output, its loss and, for classes, the part of the targets that has the best score.
struct Result {
  torch::Tensor loss;
  torch::Tensor accuracy;
};

Result run_model(mn::ExportedModule& model, const ExportedOptions& options, const mn::Batch& batch, mn::Device device) {
  const AutocastScope autocast(options.precision, device);
  torch::Tensor data = batch.data, target = batch.target;
  if (options.target == "input") target = data;
  if (options.target == "next") {
    target = data.slice(-1, 1);
    data = data.slice(-1, 0, -1);
  }
  const torch::Tensor output = model.forward(data).to(torch::kFloat);
  const bool is_mse = options.loss == "mse";
  if (output.numel() != (is_mse ? 1 : output.size(-1)) * target.numel()) {
    throw mn::ArgumentError("--loss " + options.loss + ": the model's output " + c10::str(output.sizes()) +
                            " does not match a target of " + c10::str(target.sizes()));
  }
  if (is_mse) return {F::mse_loss(output, target.to(torch::kFloat).view_as(output)), {}};
  const torch::Tensor scores = output.flatten(0, -2);  // (targets, classes)
  target = target.flatten();
  return {F::cross_entropy(scores, target), (scores.argmax(1) == target).to(torch::kFloat).mean()};
}

std::unique_ptr<mn::Evaluator> make_evaluator(const ExportedOptions& options,
                                              const std::shared_ptr<mn::ExportedModule>& model,
                                              const std::shared_ptr<mn::Communicator>& comm) {
  if (options.validation.empty()) return nullptr;
  auto samples = mn::jobs::open_samples("validation", options, model->inputs().front(), comm);
  const auto evaluate_batch = [=, device = comm->device()](const mn::Batch& batch, mn::Summary& report) {
    const Result result = run_model(*model, options, batch, device);
    report.add("loss", result.loss.item<double>(), batch.samples);
    if (result.accuracy.defined()) report.add("accuracy", result.accuracy.item<double>(), batch.samples);
  };
  auto local = mn::create_evaluator(std::move(samples), model, evaluate_batch, mn::jobs::validation_batches(options));
  return mn::create_multi_node_evaluator(std::move(local), comm);
}

void print_banner(const ExportedOptions& options, const mn::Communicator& comm) {
  const std::string rule(42, '=');
  std::cout << rule << "\nNum process (COMM_WORLD): " << comm.size() << "\nUsing "
            << (comm.device().type == mn::DeviceType::kCuda ? "GPUs" : "CPUs") << "\nUsing " << comm.name()
            << " communicator\nModel: " << options.model << "\nNum Minibatch-size: " << options.batchsize
            << "\nNum epoch: " << options.epoch << "\n"
            << rule << std::endl;
}

int train(mn::Job& job, int argc, char** argv) {
  ExportedOptions options;
  mn::Options declared(
      "usage: jobs/exported --model FILE --train DIR [options]\n"
      "Trains a model that Python's torch.export.save has written.");
  mn::jobs::declare_options(declared, options);
  if (!mn::jobs::parse_options(declared, argc, argv, job.rank())) return 0;
  mn::jobs::check_options(options);

  auto comm = mn::jobs::set_up(options);
  const auto model = read_model(options, *comm);
  auto samples = mn::jobs::open_samples("train", options, model->inputs().front(), comm);
  auto evaluator = make_evaluator(options, model, comm);
  mn::jobs::load_initial_weights(options, *model, *comm);
  model->to(comm->device());
  if (!options.evaluate.empty()) return mn::jobs::evaluate_only(options, *model, *evaluator, *comm);
  const mn::OptimizerOptions how = mn::jobs::optimizer_options(options, *comm);
  const double rate = options.lr > 0 ? options.lr : mn::jobs::default_rate(options.optimizer);
  const auto optimizer = mn::jobs::create_optimizer(options, rate, *model, comm, how);

  const auto compute_loss = [&](const mn::Batch& batch, mn::Summary& report) {
    const Result result = run_model(*model, options, batch, comm->device());
    if (result.accuracy.defined()) report.add("accuracy", result.accuracy.item<double>(), batch.samples);
    return result.loss;
  };
  mn::Trainer trainer(comm, optimizer, std::move(samples), model, compute_loss,
                      mn::jobs::trainer_options(options, how));
  mn::jobs::write_config(declared, options.out, *comm);
  trainer.extend(std::make_unique<ext::AllreducePersistent>(), {.trigger = mn::jobs::report_period(options)});
  if (options.checkpoint_every != "none") {
    trainer.extend(std::make_unique<ext::AllreducePersistent>(),
                   {.trigger = mn::Interval::parse(options.checkpoint_every), .name = "AllreducePersistent/snapshot"});
  }
  const auto reports = mn::jobs::add_reports(trainer, options, std::move(evaluator), mn::jobs::report_period(options));
  if (!options.resume.empty()) trainer.resume(options.resume);

  if (comm->rank() == 0) print_banner(options, *comm);
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

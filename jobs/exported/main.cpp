/// jobs/exported: trains a model that Python has exported, on any number of ranks.
#include <torch/torch.h>

#include <mn/app/app.hpp>
#include <mn/comm/on_root.hpp>
#include <mn/core/file.hpp>
#include <mn/nn/exported_module.hpp>

#include "exported/data.hpp"
#include "exported/options.hpp"

namespace {

namespace F = torch::nn::functional;
using mn::jobs::ExportedOptions;

constexpr std::int64_t kIgnored = -100;  // cross_entropy's default

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

/// The loss; for classes it reports the part of the targets that has the best score. Both are means over the targets
/// that cross_entropy does not ignore.
mn::Loss loss_of(mn::ExportedModule& model, const ExportedOptions& options, const mn::Batch& batch,
                 mn::Summary& report) {
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
  if (is_mse) return F::mse_loss(output, target.to(torch::kFloat).view_as(output));
  const torch::Tensor scores = output.flatten(0, -2);  // (targets, classes)
  target = target.flatten();
  const double count = target.ne(kIgnored).sum().item<double>();
  report.add("accuracy", scores.argmax(1).eq(target).sum().item<double>() / count, count);
  return {F::cross_entropy(scores, target), count};
}

mn::app::Training make_training(const ExportedOptions& options, const std::shared_ptr<mn::Communicator>& comm) {
  const auto model = read_model(options, *comm);
  const auto samples = [&](const std::string& option) {
    return mn::jobs::open_samples(option, options, model->inputs().front(), comm);
  };
  mn::app::Training training{.model = model, .train = samples("train"), .banner = {"Model: " + options.model}};
  if (!options.validation.empty()) training.validation = samples("validation");
  training.loss = [&options, model](const mn::Batch& batch, mn::Summary& report) {
    return loss_of(*model, options, batch, report);
  };
  return training;
}

}  // namespace

int main(int argc, char** argv) {
  ExportedOptions given;
  mn::Options options(
      "usage: jobs/exported --model FILE --train DIR [options]\n"
      "Trains a model that Python's torch.export.save has written.");
  mn::jobs::declare_options(options, given);
  return mn::app::run_training(argc, argv, options, given, [&](const std::shared_ptr<mn::Communicator>& comm) {
    return make_training(given, comm);
  });
}

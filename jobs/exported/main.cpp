/// jobs/exported: trains a model that Python has exported, on any number of ranks.
#include <optional>

#include <dlfcn.h>
#include <torch/torch.h>

#include <mn/app/app.hpp>
#include <mn/comm/on_root.hpp>
#include <mn/nn/exported_file.hpp>
#include <mn/nn/exported_module.hpp>

#include "exported/data.hpp"
#include "exported/loss.hpp"
#include "exported/options.hpp"

namespace {

using mn::jobs::ExportedOptions;

/// The libraries add operators to libtorch's dispatcher, and stay loaded.
void load_operators(const std::vector<std::string>& libraries) {
  for (const std::string& library : libraries) {
    if (dlopen(library.c_str(), RTLD_LAZY | RTLD_GLOBAL) == nullptr)
      throw mn::UsageError(std::string("--operators: ") + dlerror());
  }
}

/// Collective: rank 0 reads the files for all ranks. If a file is damaged, every rank throws the same error.
std::shared_ptr<mn::ExportedModule> read_model(const ExportedOptions& options,
                                               const std::shared_ptr<mn::Communicator>& comm) {
  const mn::ExportedFile file(options.model, comm);
  if (!file.precision().empty() && file.precision() != options.precision) {
    throw mn::UsageError("--precision " + options.precision + ": " + options.model + " was compiled for --precision " +
                         file.precision());
  }
  std::optional<mn::ExportedFile> evaluation;
  if (!options.evaluation_model.empty()) {
    evaluation.emplace(options.evaluation_model, comm);
    if (!evaluation->precision().empty()) {
      throw mn::UsageError("--evaluation-model " + options.evaluation_model + " is compiled: give the .pt2 file, or " +
                           "give that to mn-compile --evaluation-model, whose package has both graphs");
    }
  }
  const auto make = [&](bool has_values) {
    const auto model = std::make_shared<mn::ExportedModule>(has_values ? file : file.without_values());
    if (evaluation) model->set_evaluation_graph(has_values ? *evaluation : evaluation->without_values());
    if (!options.validation.empty()) model->require_evaluation_graph();
    return model;
  };
  mn::on_root<mn::DataError>(
      *comm, [&] { static_cast<void>(make(false)); }, true);  // checks the graphs
  const auto model = mn::app::make_model(options, comm, [&] { return make(true); });
  if (model->inputs().empty()) throw mn::UsageError("--model: " + options.model + " takes no tensors");
  if (comm->rank() == 0 && model->is_exported_for_evaluation()) {
    mn::log_warning(options.model +
                    " was exported in evaluation mode: it trains without dropout, and with fixed batch " +
                    "statistics; call model.train() before torch.export.export, or, for frozen batch norms, " +
                    "requires_grad_(False) on their weights");
  }
  return model;
}

/// Throws ArgumentError if the output has no gradient to pass back.
at::Tensor run(mn::ExportedModule& model, const std::vector<at::Tensor>& inputs, const std::string& output) {
  at::Tensor result = model.forward(inputs, output);
  if (result.requires_grad() || !model.is_training() || !torch::GradMode::is_enabled()) return result;
  throw mn::ArgumentError("the model's output " + output + " does not require grad: it depends on no parameter that " +
                          "trains; --output names another one");
}

mn::Loss loss_of(mn::ExportedModule& model, const std::string& output, const ExportedOptions& options,
                 const mn::Batch& batch, mn::Summary& report) {
  std::vector<at::Tensor> inputs;
  for (std::size_t i = 0; i < model.inputs().size(); ++i) inputs.push_back(batch.field(i).values);
  if (options.loss == "output") return mn::jobs::own_loss(run(model, inputs, output));
  at::Tensor target = options.target == "label" ? batch.fields.back().values : inputs.front();
  if (options.target == "next") {
    target = inputs.front().slice(-1, 1);
    inputs.front() = inputs.front().slice(-1, 0, -1);
  }
  return mn::jobs::compare(options, run(model, inputs, output), target, report);
}

mn::app::Training make_training(const ExportedOptions& options, const std::shared_ptr<mn::Communicator>& comm) {
  load_operators(options.operators);
  const auto model = read_model(options, comm);
  const std::string output = model->outputs()[mn::jobs::find_output(*model, options)].name;
  mn::app::Training training{.model = model,
                             .train = mn::jobs::open_samples("train", options.train, options, *model, comm),
                             .banner = {"Model: " + options.model}};
  if (!options.validation.empty()) {
    training.validations = mn::app::validation_sets(options.validation, [&](const std::string& names) {
      return mn::jobs::open_samples("validation", names, options, *model, comm);
    });
  }
  training.loss = [&options, model, output](const mn::Batch& batch, mn::Summary& report) {
    return loss_of(*model, output, options, batch, report);
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

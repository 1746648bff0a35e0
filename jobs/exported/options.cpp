#include "exported/options.hpp"

#include <mn/core/error.hpp>

namespace mn::jobs {
namespace {

/// Throws UsageError if one is missing that has no default, or that another one needs.
void check_options(const ExportedOptions& given) {
  if (given.model.empty()) {
    throw UsageError("--model is missing: the file that torch.export.save has written (docs/jobs.md)");
  }
  if (given.train.empty()) throw UsageError("--train is missing: the folder with shards that mnshard has made");
  if (!given.validation.empty()) return;
  if (!given.evaluate.empty()) throw UsageError("--evaluate needs --validation: the shards to validate on");
  if (given.monitor.starts_with("validation/") && app::uses_monitor(given)) {
    throw UsageError("--monitor " + given.monitor + " needs --validation: give that, or --monitor main/loss");
  }
}

}  // namespace

void declare_options(Options& options, ExportedOptions& given) {
  options.add("model", given.model, "FILE", "the model, as torch.export.save has written it (.pt2)");
  options.add("evaluation-model", given.evaluation_model, "FILE",
              "the same model exported in evaluation mode; default: --model with dropout and batch norm switched");
  options.add("train", given.train, "DIR", "shards to train on, made by mnshard");
  options.add("validation", given.validation, "DIR", "shards to validate on after each epoch; default: none");
  options.add("loss", given.loss, "NAME", "between the model's output and the target: cross_entropy or mse",
              {"cross_entropy", "mse"});
  options.add("target", given.target, "NAME",
              "label: of the sample; next: for each element of the sample the one after it; input: the sample itself",
              {"label", "next", "input"});
  options.add("loaderjob", given.loaderjob, "threads of each rank that decode; 0: as many as it has cores, but one", 0,
              1024);
  options.add_check([&given] { check_options(given); });
}

}  // namespace mn::jobs

#include "exported/options.hpp"

#include <mn/app/batches.hpp>
#include <mn/core/error.hpp>

namespace mn::jobs {
namespace {

void check_options(const ExportedOptions& given) {
  if (given.model.empty()) {
    throw UsageError("--model is missing: the file that torch.export.save or mn-compile has written (docs/jobs.md)");
  }
  if (given.train.empty()) throw UsageError("--train is missing: the folder with shards that mnshard has made");
  for (const std::string& each : given.inputs) {
    const std::size_t sign = each.find('=');
    if (sign == 0 || sign >= each.size() - 1) throw UsageError("--input " + each + ": give INPUT=FIELD");
  }
  if (!given.validation.empty()) return;
  if (!given.evaluate.empty()) throw UsageError("--evaluate needs --validation: the shards to validate on");
  if (given.monitor.starts_with("validation/") && app::uses_monitor(given)) {
    throw UsageError("--monitor " + given.monitor + " needs --validation: give that, or --monitor main/loss");
  }
}

}  // namespace

void declare_options(Options& options, ExportedOptions& given) {
  options.add("model", given.model, "FILE",
              "the model, as torch.export.save (.pt2) or mn-compile (.mnc) has written it");
  options.add("evaluation-model", given.evaluation_model, "FILE",
              "the same model exported in evaluation mode; default: --model with dropout and batch norm switched");
  options.add_list("operators", given.operators, "LIB", "a library with operators of the model, such as torchvision's");
  options.add("train", given.train, "DIR", "shards to train on, made by mnshard");
  options.add("validation", given.validation, "DIR",
              "shards to validate on after each epoch; SET=DIR,SET=DIR: several sets; default: none");
  options.add_list("input", given.inputs, "INPUT=FIELD",
                   "which field of the samples an input of the model takes; default: the one of its name");
  options.add("output", given.output, "NAME", "which output of the model counts, where it returns several");
  options.add("loss", given.loss, "NAME",
              "between the model's output and the target: cross_entropy or mse; output: the model's output is the loss",
              {"cross_entropy", "mse", "output"});
  options.add("classes", given.classes, "WHERE",
              "dimension of the output with the classes: the second, the last, or auto, by the target's shape",
              {"auto", "second", "last"});
  options.add("target", given.target, "NAME",
              "label: the sample's label; next: for each element of the sample the next element; input: the sample",
              {"label", "next", "input"});
  options.add("label", given.label, "FIELD",
              "the field of --target label; default: the second one, or the only one that no input takes");
  app::add_loaderjob(options, given.loaderjob);
  options.add_check([&given] { check_options(given); });
  options.add_conditions(
      {{"classes", [&given] { return given.loss == "cross_entropy"; }, "without --loss cross_entropy"},
       {"target", [&given] { return given.loss != "output"; }, "with --loss output"},
       {"label", [&given] { return given.loss != "output"; }, "with --loss output"},
       {"label", [&given] { return given.target == "label"; }, "without --target label"},
       {"evaluation-model", [&given] { return !given.validation.empty(); }, "without --validation"},
       {"val-every", [&given] { return !given.validation.empty(); }, "without --validation"}});
}

}  // namespace mn::jobs

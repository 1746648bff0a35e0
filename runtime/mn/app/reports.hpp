/// Reports, validations and checkpoints of every training job.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include <mn/app/setup.hpp>
#include <mn/trainer/evaluator.hpp>
#include <mn/trainer/extensions/monitor.hpp>
#include <mn/trainer/extensions/run_facts.hpp>
#include <mn/trainer/extensions/weight_average.hpp>
#include <mn/trainer/trainer.hpp>

namespace mn::app {

/// Period of a job's reports: each iteration with --one-batch, otherwise `usual`.
[[nodiscard]] Interval report_period(const CommonOptions& options, Interval usual);

/// Number of minibatches of a validation, for create_evaluator(): 1 with --one-batch, otherwise 0, which means all.
[[nodiscard]] inline std::int64_t validation_minibatches(const CommonOptions& options) {
  return options.one_batch ? 1 : 0;
}

/// Period of a job's validations: --val-every, or by default `report`, the period of reports.
[[nodiscard]] Interval validation_period(const CommonOptions& options, Interval report);

/// An evaluator, and the name under which its values are reported: "NAME/main/loss".
struct NamedEvaluator {
  std::string name;                      ///< "validation", or "validation/SET" for a set with a name
  std::unique_ptr<Evaluator> evaluator;  ///< not null
};

/// Adds the extensions of every job: the learning rate over time, averaged weights, graph, evaluation, log, table,
/// plot, run record, progress bar, profile, early stop and checkpoints. Returns the extension for averaged weights,
/// which the trainer owns, or null without --ema.
///
/// The log and the evaluators run at `period`. If --val-every is given, the evaluators run at its period instead, and a
/// report follows each validation. The schedule changes the rate with which the optimizer was made. Table and plot show
/// `metric` beside the loss. record_run() adds log, table, page and the like, with `details`.
extensions::WeightAverage* add_reports(Trainer& trainer, const CommonOptions& options,
                                       std::vector<NamedEvaluator> evaluators, Interval period,
                                       const std::string& metric = "accuracy", extensions::RunDetails details = {});

}  // namespace mn::app

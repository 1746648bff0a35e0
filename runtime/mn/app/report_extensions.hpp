/// Adds reports, validations and checkpoints to a training job.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include <mn/app/record_run.hpp>
#include <mn/app/setup.hpp>
#include <mn/trainer/evaluator.hpp>
#include <mn/trainer/extensions/monitor.hpp>
#include <mn/trainer/extensions/run_facts.hpp>
#include <mn/trainer/extensions/weight_average.hpp>
#include <mn/trainer/trainer.hpp>

namespace mn::app {

/// Returns the period of a job's reports: each iteration with --one-batch, otherwise `usual`.
[[nodiscard]] Interval report_period(const CommonOptions& options, Interval usual);

/// Returns the period of a job's validations: the value of --val-every or, without it, `report`.
[[nodiscard]] Interval validation_period(const CommonOptions& options, Interval report);

/// An evaluator and its name. The log has the evaluator's values as "NAME/main/…", for instance the loss as
/// "NAME/main/loss".
struct NamedEvaluator {
  std::string name;                      ///< "validation", or "validation/SET" for a set with a name
  std::unique_ptr<Evaluator> evaluator;  ///< not null
};

/// Adds the extensions of every job: the learning rate over time, averaged weights, graph, evaluation, log, table,
/// plot, run record, progress bar, profile, early stop and checkpoints. Returns the extension that averages weights;
/// the trainer owns the extension. Null without --ema.
///
/// The log and the evaluators run at record.period. With --val-every, the evaluators run at the period of --val-every
/// instead, and a report follows each validation. The rates of --schedule are computed from the learning rate that the
/// optimizer has at this call. `record` is passed to record_run(), which adds log, table, plot, report.html and
/// progress bar; its names of validations and used values are set here.
extensions::WeightAverage* add_reports(Trainer& trainer, const CommonOptions& options,
                                       std::vector<NamedEvaluator> evaluators, RecordOptions record);

}  // namespace mn::app

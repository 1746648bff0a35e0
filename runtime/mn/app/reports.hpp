/// What every training job writes and prints.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include <mn/app/setup.hpp>
#include <mn/train/evaluator.hpp>
#include <mn/train/trainer.hpp>

namespace mn::jobs {

/// The graph, evaluation, log, table, plot, progress bar, profile and checkpoints. Log and `evaluator`, which
/// may be null, run at `period`.
void add_reports(Trainer& trainer, const CommonOptions& options, std::unique_ptr<Evaluator> evaluator,
                 Interval period = {1, IntervalUnit::kEpoch});

}  // namespace mn::jobs

/// Records and prints what happens in a run, for programs that make a Trainer themselves.
#pragma once

#include <map>
#include <string>
#include <vector>

#include <mn/core/options.hpp>
#include <mn/trainer/extensions/log_report.hpp>
#include <mn/trainer/extensions/run_facts.hpp>
#include <mn/trainer/trainer.hpp>

namespace mn::app {

/// The options of record_run().
struct RecordOptions {
  Interval period = {1, IntervalUnit::kEpoch};  ///< period of reports
  std::string metric = "accuracy";              ///< "main/METRIC", shown beside the loss in table and plot
  std::vector<std::string> validations = {};    ///< names of the validations; empty: "validation"
  extensions::RunDetails details = {};          ///< unit of the speed, and values that the run uses
  extensions::LogReport::Derive derive = {};    ///< adds values to each entry of OUT/log
  /// The program's settings by name, for OUT/config.ini. report.html shows and compares them.
  std::map<std::string, std::string> settings = {};
  /// The program's options. OUT/config.ini has these in place of `settings`. Null if the program has no Options.
  const Options* options = nullptr;
};

/// Adds the extensions for OUT/log, the table, OUT/plot.png, OUT/run.jsonl, OUT/report.html and the progress bar, and
/// an extension that throws if the loss is not a number. If the job ends with an error, report.html says so.
/// Collective. Call record_run() after adding validations, and before Trainer::resume() and run(). Rank 0 prints a line
/// about the training, and after 20 steps an estimate of the training's time. Returns the log, which belongs to the
/// trainer. `mnreport OUT` then shows the run as it shows a run of run_training().
///
///   mn::Trainer trainer(comm, optimizer, iterator, model, loss, {.epochs = 20, .out = "result"});
///   mn::app::record_run(trainer, {.details = {.unit = "images"}, .settings = {{"lr", "0.1"}}});
///   return trainer.run();
extensions::LogReport& record_run(Trainer& trainer, RecordOptions options = {});

/// Rank 0 writes the page OUT/report.html, as the program mnreport does. If the write fails, rank 0 logs a warning.
void write_report(const Trainer& trainer);

}  // namespace mn::app

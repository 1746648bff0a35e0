/// What a job writes and prints about its run, for a program with a Trainer of its own.
#pragma once

#include <filesystem>
#include <map>
#include <string>
#include <vector>

#include <mn/trainer/extensions/log_report.hpp>
#include <mn/trainer/extensions/run_facts.hpp>
#include <mn/trainer/trainer.hpp>

namespace mn::app {

/// What record_run() records.
struct RecordOptions {
  Interval period = {1, IntervalUnit::kEpoch};  ///< of reports
  std::string metric = "accuracy";              ///< "main/METRIC", shown beside the loss in table and plot
  std::vector<std::string> validations = {};    ///< names of the validations; empty: "validation"
  extensions::RunDetails details = {};          ///< what is counted each second, and values that the run uses
  /// The program's settings by name, for OUT/config.ini, whose values the page shows and compares. Empty: no file.
  std::map<std::string, std::string> settings = {};
};

/// Collective, before Trainer::resume() and run(); call it after adding validations. Adds the extensions for OUT/log,
/// the table, OUT/plot.png, OUT/run.jsonl, OUT/report.html and the progress bar, and an error for a loss that is not a
/// number. Rank 0 prints a line about what will happen, and after 20 steps how long the training takes. Returns the
/// log, which belongs to the trainer. `mnreport OUT` then shows the run as it shows a job's.
///
///   mn::Trainer trainer(comm, optimizer, iterator, model, loss, {.epochs = 20, .out = "result"});
///   mn::app::record_run(trainer, {.details = {.unit = "images"}, .settings = {{"lr", "0.1"}}});
///   return trainer.run();
extensions::LogReport& record_run(Trainer& trainer, RecordOptions options = {});

/// Rank 0 writes OUT/report.html, as mnreport does. A failed write is a warning.
void write_report(const Trainer& trainer);

}  // namespace mn::app

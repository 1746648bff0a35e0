/// Writes OUT/run.jsonl: hosts, times and warnings of a run, one JSON object in each line, for mnreport and scripts.
#pragma once

#include <cstdint>
#include <memory>

#include <nlohmann/json_fwd.hpp>

#include <mn/loader/iterator.hpp>
#include <mn/trainer/extension.hpp>
#include <mn/trainer/extensions/log_report.hpp>
#include <mn/trainer/extensions/run_facts.hpp>
#include <mn/trainer/trainer.hpp>

namespace mn::extensions {

class AppendedFile;

/// Rank 0 appends lines to the file; a resumed run continues the file. "event" in a line says what the line is about:
///   start   time (seconds since 1970), iteration, command, hosts (by rank), device, run (RunFacts)
///   report  time, iteration, epoch (with its fraction), validation_s and checkpoint_s (rank 0's ExtensionTimes since
///           the previous line), and lists by rank: data_s, compute_s, communication_s, mean times of
///           a step since the previous line. With a DataLoader also queue_s, storage_s, transform_s and copy_s, the
///           causes of data_s (LoaderStats), and read_bytes and opens since the previous line. A resumed run has no
///           lists before its first step
///   end     time, iteration, elapsed_s, why, validation_s, checkpoint_s; after an error time, iteration, error; absent
///           if the run was killed
///
/// If ranks have logged warnings since the previous line, the lines "report" and "end" also have "warnings", a list of
/// the texts. There is a line "report" for each entry of the log. Collective in the same iterations as the log.
class RunRecord final : public Extension {
 public:
  /// `log` belongs to the same trainer, and must outlive this extension. `details` describe the run for report.html.
  explicit RunRecord(const LogReport& log, RunDetails details = {});
  ~RunRecord() override;

  [[nodiscard]] std::string name() const override { return "RunRecord"; }
  [[nodiscard]] int priority() const override { return kPriorityReport; }
  void initialize(Trainer& trainer) override;
  void run(Trainer& trainer) override;
  void finalize(Trainer& trainer) override;

 private:
  void add_times(Trainer& trainer, std::int64_t iterations, nlohmann::json& line);
  void add_pauses(const Trainer& trainer, nlohmann::json& line);
  void append(const nlohmann::json& line);

  const LogReport& log_;
  RunDetails details_;
  std::unique_ptr<AppendedFile> file_;  // on rank 0
  std::int64_t reported_ = 0;           // number of log entries read so far
  std::int64_t iteration_ = 0;          // iteration of the last report
  StepTimes times_;                     // times up to the last report
  ExtensionTimes pauses_;               // times of extensions up to the last line
  LoaderStats loader_;                  // the loader's statistics up to the last report
  bool has_failed_ = false;
};

}  // namespace mn::extensions

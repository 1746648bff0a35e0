/// OUT/run.jsonl: how a run went beside its log, one JSON object a line, for mnreport and scripts.
#pragma once

#include <cstdint>
#include <memory>

#include <nlohmann/json_fwd.hpp>

#include <mn/loader/iterator.hpp>
#include <mn/trainer/extension.hpp>
#include <mn/trainer/extensions/log_report.hpp>
#include <mn/trainer/times.hpp>

namespace mn::extensions {

class AppendedFile;

/// Rank 0 appends; a run that resumes goes on in the same file. Lines, by "event":
///   start   time (seconds since 1970), iteration, command, hosts (by rank), device
///   report  iteration, epoch (with its fraction), and lists by rank: data_s, compute_s, communication_s, means of a
///           step since the line before; where minibatches are of a DataLoader, also what data_s was waited for,
///           queue_s, storage_s, transform_s, copy_s (LoaderStats), and read_bytes and opens, those since the line
///           before; no lists where a run that resumed has not made a step yet
///   end     time, iteration, elapsed_s, why; absent if the run was ended from outside
/// Lines report and end have warnings, a list of texts, where ranks have logged some since the line before.
/// Follows the log's reports. Collective where the log is.
class RunRecord final : public Extension {
 public:
  /// `log` is the same trainer's and must live as long as this.
  explicit RunRecord(const LogReport& log);
  ~RunRecord() override;
  RunRecord(const RunRecord&) = delete;
  RunRecord& operator=(const RunRecord&) = delete;

  [[nodiscard]] std::string name() const override { return "RunRecord"; }
  [[nodiscard]] int priority() const override { return kPriorityReport; }
  void initialize(Trainer& trainer) override;
  void run(Trainer& trainer) override;
  void finalize(Trainer& trainer) override;

 private:
  void add_times(Trainer& trainer, std::int64_t iterations, nlohmann::json& line);
  void append(const nlohmann::json& line);

  const LogReport& log_;
  std::unique_ptr<AppendedFile> file_;  // rank 0's
  std::int64_t reported_ = 0;           // entries of the log
  std::int64_t iteration_ = 0;          // of the last report, as below
  StepTimes times_;
  LoaderStats loader_;
  bool has_failed_ = false;
};

}  // namespace mn::extensions

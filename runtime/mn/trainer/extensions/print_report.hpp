/// The table that rank 0 prints during training.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include <nlohmann/json_fwd.hpp>

#include <mn/trainer/extension.hpp>
#include <mn/trainer/extensions/log_report.hpp>

namespace mn::extensions {

/// Prints one line for each new entry of the log, under one header.
class PrintReport final : public Extension {
 public:
  /// `log` belongs to the same trainer, and must outlive this extension. `columns` are names of values in the log.
  explicit PrintReport(const LogReport& log, std::vector<std::string> columns = {
                                                 "epoch", "main/loss", "validation/main/loss", "main/accuracy",
                                                 "validation/main/accuracy", "elapsed_time"});

  [[nodiscard]] std::string name() const override { return "PrintReport"; }
  [[nodiscard]] int priority() const override { return kPriorityReport; }
  void initialize(Trainer& trainer) override;
  void run(Trainer& trainer) override;

  /// The line of one entry. Its columns are as wide as in the header; a column is blank if the entry does not have its
  /// value.
  [[nodiscard]] std::string line(const nlohmann::json& entry) const;
  /// The header: the names of the columns.
  [[nodiscard]] std::string header() const;

 private:
  const LogReport& log_;
  std::vector<std::string> columns_;
  std::int64_t printed_ = 0;  // number of printed entries
};

}  // namespace mn::extensions

/// The table that rank 0 prints during training.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include <nlohmann/json_fwd.hpp>

#include <mn/trainer/extension.hpp>
#include <mn/trainer/extensions/log_report.hpp>

namespace mn::extensions {

/// Prints one line for each new entry of the log, below one header.
class PrintReport final : public Extension {
 public:
  /// Says when the header is printed, and which columns the header has.
  enum class Header {
    kAtStart,   ///< before training, with all columns
    kOfEntries  ///< with the columns of all entries so far; printed again if an entry has a new column
  };

  /// `log` belongs to the same trainer, and must outlive this extension. `columns` are names of values in the log.
  explicit PrintReport(const LogReport& log,
                       std::vector<std::string> columns = {"epoch", "main/loss", "validation/main/loss",
                                                           "main/accuracy", "validation/main/accuracy", "elapsed_time"},
                       Header header = Header::kAtStart);

  [[nodiscard]] std::string name() const override { return "PrintReport"; }
  [[nodiscard]] int priority() const override { return kPriorityReport; }
  void initialize(Trainer& trainer) override;
  void run(Trainer& trainer) override;

  /// Returns the line of one entry, aligned with the header. A column is blank if the entry lacks the column's value.
  [[nodiscard]] std::string line(const nlohmann::json& entry) const;
  /// Returns the latest header, that is, the names of its columns.
  [[nodiscard]] std::string header() const;

 private:
  [[nodiscard]] bool take_columns(const nlohmann::json& entry);

  const LogReport& log_;
  std::vector<std::string> columns_;
  Header when_;
  std::vector<std::string> shown_;  // columns of the latest header, in the order of columns_
  std::int64_t printed_ = 0;        // number of entries printed so far
};

}  // namespace mn::extensions

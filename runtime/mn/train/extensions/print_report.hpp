/// The table that rank 0 prints while training.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include <mn/train/extension.hpp>
#include <mn/train/extensions/log_report.hpp>

namespace mn::extensions {

/// One line for each new entry of the log, under one header. Runs when the log does; add it after the log.
class PrintReport final : public Extension {
 public:
  /// `log` is the same trainer's.
  explicit PrintReport(const LogReport& log, std::vector<std::string> columns = {
                                                 "epoch", "main/loss", "validation/main/loss", "main/accuracy",
                                                 "validation/main/accuracy", "elapsed_time"});

  [[nodiscard]] std::string name() const override { return "PrintReport"; }
  void initialize(Trainer& trainer) override;
  void run(Trainer& trainer) override;

  /// A table line for one entry of a log: columns padded to their headers, blank where the entry has no such value.
  [[nodiscard]] std::string line(const nlohmann::json& entry) const;
  [[nodiscard]] std::string header() const;

 private:
  const LogReport& log_;
  std::vector<std::string> columns_;
  std::size_t printed_ = 0;
};

}  // namespace mn::extensions

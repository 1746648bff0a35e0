/// Computes one number, such as a maximum, from the values of all ranks, like ChainerMN's ObservationAggregator.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include <mn/trainer/extension.hpp>

namespace mn::extensions {

/// The observed values: values[rank][i] is the i-th value that the rank `rank` has observed. If a rank has no samples
/// in a step, the rank has fewer values than other ranks.
using RankValues = std::vector<std::vector<double>>;

/// Gathers a value of every minibatch on rank 0, where a function computes one number, such as a maximum, a median or a
/// standard deviation; every rank reports it (Trainer::report()). Means over all ranks are in the log without an
/// aggregator. Runs once an epoch by default; give it the trigger of LogReport. After a resume, only the minibatches
/// since the resume count. Without a value, nothing is reported.
class ObservationAggregator final : public Extension {
 public:
  /// `key` names the gathered value: "main/loss", or "main/NAME" for a metric NAME of the loss function. The result is
  /// reported as `aggregated_key`. Throws ArgumentError if `aggregated_key` is empty or equals `key`, or if `aggregate`
  /// is empty. An error in `aggregate` becomes the same ArgumentError on every rank. If no minibatch has reported
  /// `key`, the first run throws ArgumentError if `key` is nearly the name of a reported value; otherwise it only logs
  /// the missing value.
  ObservationAggregator(std::string key, std::string aggregated_key,
                        std::function<double(const RankValues& values)> aggregate);

  [[nodiscard]] std::string name() const override { return "ObservationAggregator/" + aggregated_key_; }
  [[nodiscard]] Interval trigger() const override { return {1, IntervalUnit::kEpoch}; }
  [[nodiscard]] int priority() const override { return kPriorityWriter; }
  void observe(const at::Tensor& loss, const Summary& metrics) override;
  void run(Trainer& trainer) override;
  void at_end(Trainer& trainer) override { run(trainer); }

 private:
  void check_key(Trainer& trainer);

  std::string key_, aggregated_key_;
  std::function<double(const RankValues&)> aggregate_;
  std::vector<at::Tensor> losses_;  // kept on their device, because reading a loss waits for the device
  std::vector<double> values_;
  bool is_checked_ = false;
};

}  // namespace mn::extensions

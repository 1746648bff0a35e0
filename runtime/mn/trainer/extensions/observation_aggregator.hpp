/// A value over all ranks that is not a mean: ChainerMN's ObservationAggregator.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include <mn/trainer/extension.hpp>

namespace mn::extensions {

/// By rank, what it observed in each of its minibatches, in order. A rank without samples in a step has fewer.
using RankValues = std::vector<std::vector<double>>;

/// Gathers a value of every minibatch on rank 0, where a function of one's own makes one number of them, such as a
/// maximum, a median or a standard deviation; Trainer::report() then has it on every rank. For means there is no need:
/// LogReport takes them over all ranks. Runs once an epoch, unless another trigger is given: give it LogReport's. After
/// a resume it begins with the minibatches since. Where no minibatch had a value, it reports nothing.
class ObservationAggregator final : public Extension {
 public:
  /// `key` is "main/loss", or "main/NAME" of a metric that the loss function reports; the result is reported as
  /// `aggregated_key`. Throws ArgumentError if that is not another name, or if `aggregate` is empty. An error in
  /// `aggregate` becomes the same ArgumentError on every rank. So does a `key` that is nearly the name of another
  /// value; one that no minibatch has reported before the first run is logged.
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
  std::vector<at::Tensor> losses_;  // on their device: reading them waits for it
  std::vector<double> values_;
  bool is_checked_ = false;
};

}  // namespace mn::extensions

/// Freezes and unfreezes parameters at the beginning of epochs. Patterns choose the parameters by their names.
#pragma once

#include <cstdint>
#include <limits>
#include <string>
#include <vector>

#include <mn/trainer/extension.hpp>

namespace mn::extensions {

/// A pattern for names of parameters, and the epochs in which the matching parameters are frozen.
struct FrozenEpochs {
  static constexpr std::int64_t kForever = std::numeric_limits<std::int64_t>::max();  ///< frozen to the end of training

  std::string pattern;            ///< pattern for names of parameters: see matches_name()
  std::int64_t until = kForever;  ///< number of epochs after which the parameters train
  std::int64_t from = 0;          ///< number of epochs after which the parameters are frozen
};

/// Freezes parameters (requires_grad is false) in some epochs. An example is fine-tuning in which the layers near the
/// output train first (gradual unfreezing; Howard and Ruder 2018, arXiv:1801.06146):
///
///   mn::extensions::Freezing freezing({{"layer1", 4}, {"layer2", 2}, {"embedding"}});
///   freezing.apply(*model, 0);  // before the optimizer is made, which then needs no memory for these gradients
///   …
///   trainer.extend(std::make_unique<mn::extensions::Freezing>(freezing));
///
/// (1) If a pattern matches a parameter's name, the parameter is frozen in the pattern's epochs [from, until), counted
///     from 0. Parameters that no pattern matches are left alone.
/// (2) If a pattern matches the name of a normalization, the normalization is frozen in the same epochs: it then uses
///     its running statistics, and does not change them.
/// (3) Only the number of completed epochs decides which parameters are frozen, so a training may resume with any
///     number of ranks. If the program has changed the epochs of its rules, the new epochs count.
/// A frozen parameter costs no communication, and gets its state in the optimizer only with its first update. Rank 0
/// logs each change. For a warm-up of parameters that are unfrozen, see LearningRate and starting_at().
class Freezing final : public Extension {
 public:
  /// Throws ArgumentError if `from` or `until` is negative.
  explicit Freezing(std::vector<FrozenEpochs> rules);

  /// Local. Freezes and unfreezes the parameters of `model`. Afterwards, the parameters are as they should be after
  /// `epoch` completed epochs. Returns the names of the parameters that have changed. Throws ArgumentError if a pattern
  /// matches no parameter, and UsageError if every parameter would be frozen.
  std::vector<std::string> apply(torch::nn::Module& model, std::int64_t epoch) const;

  [[nodiscard]] std::string name() const override { return "Freezing"; }
  [[nodiscard]] Interval trigger() const override { return {1, IntervalUnit::kEpoch}; }
  [[nodiscard]] int priority() const override { return kPriorityLast / 2; }
  void initialize(Trainer& trainer) override;
  void run(Trainer& trainer) override;

 private:
  [[nodiscard]] bool is_known(const std::string& name) const;
  [[nodiscard]] bool is_frozen(const std::string& name, std::int64_t epoch) const;

  std::vector<FrozenEpochs> rules_;
};

}  // namespace mn::extensions

/// Adam (Kingma & Ba 2015, arXiv:1412.6980) and AdamW (Loshchilov & Hutter 2019, arXiv:1711.05101) whose update is one
/// pass over memory.
///
/// libtorch's fused kernels update all parameters of one device and dtype in one call. They read and write each
/// parameter once; torch::optim::Adam makes a pass for each term.
#pragma once

#include <vector>

#include <torch/optim/adam.h>
#include <torch/optim/adamw.h>

#include <mn/optimizers/capturable.hpp>
#include <mn/optimizers/skips_overflows.hpp>

namespace mn {

/// Replaces torch::optim::Adam, with its options, its state (also in a checkpoint), and its results to rounding.
class FusedAdam : public torch::optim::Adam, public SkipsOverflows, public Capturable {
 public:
  using torch::optim::Adam::Adam;
  /// One update of all parameters that have a gradient; returns what `closure` returns. Throws ArgumentError for a
  /// sparse gradient.
  at::Tensor step(LossClosure closure = nullptr) override;
  /// See SkipsOverflows::settle().
  void settle() override;
  /// See Capturable.
  [[nodiscard]] std::vector<double> constants() const override;
  /// See Capturable.
  void keep_captured() override { counts_.keep_step(); }
  /// See Capturable.
  void count_replay() override;

 private:
  StepCounts counts_;
};

/// Replaces torch::optim::AdamW, with its options, its state (also in a checkpoint), and its results to rounding.
class FusedAdamW : public torch::optim::AdamW, public SkipsOverflows, public Capturable {
 public:
  using torch::optim::AdamW::AdamW;
  /// See FusedAdam::step().
  at::Tensor step(LossClosure closure = nullptr) override;
  /// See SkipsOverflows::settle().
  void settle() override;
  /// See Capturable.
  [[nodiscard]] std::vector<double> constants() const override;
  /// See Capturable.
  void keep_captured() override { counts_.keep_step(); }
  /// See Capturable.
  void count_replay() override;

 private:
  StepCounts counts_;
};

}  // namespace mn

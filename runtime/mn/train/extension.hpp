/// What a Trainer does besides training: reports, evaluation, snapshots, plots; Chainer's extensions.
#pragma once

#include <functional>
#include <string>

#include <ATen/core/Tensor.h>
#include <nlohmann/json_fwd.hpp>

#include <mn/train/triggers.hpp>

namespace mn {

class Trainer;

/// Chainer's priorities; the highest runs first.
inline constexpr int kPriorityWriter = 300;  ///< reports values that others read
inline constexpr int kPriorityReader = 100;
inline constexpr int kPriorityLast = -100;  ///< after all others: snapshots, which hold what those did

/// Every member is called on all ranks at the same point, so it may be collective; only rank 0 writes and prints.
class Extension {
 public:
  virtual ~Extension() = default;

  /// Under which its state is kept; one of its kind in a trainer, unless extend() gives another.
  [[nodiscard]] virtual std::string name() const = 0;
  [[nodiscard]] virtual Interval trigger() const { return {1, IntervalUnit::kIteration}; }
  [[nodiscard]] virtual int priority() const { return kPriorityReader; }

  /// Once, before the first iteration, after a resumed state was loaded.
  virtual void initialize(Trainer&) {}
  /// After the forward pass of each iteration in which this rank had samples; `loss` still has its graph.
  virtual void after_forward(Trainer&, const at::Tensor& /*loss*/) {}
  /// Each time the trigger fires.
  virtual void run(Trainer&) {}
  /// Once, when training ends without an error.
  virtual void finalize(Trainer&) {}

  /// What a checkpoint keeps of it: rank 0's, loaded on all ranks.
  [[nodiscard]] virtual nlohmann::json state() const;
  virtual void load_state(const nlohmann::json&) {}
};

}  // namespace mn

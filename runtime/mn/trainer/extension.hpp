/// Chainer's extensions: work of a Trainer besides training (reports, evaluation, snapshots, plots).
#pragma once

#include <cstdint>
#include <exception>
#include <limits>
#include <optional>
#include <string>

#include <ATen/core/Tensor.h>
#include <nlohmann/json_fwd.hpp>

#include <mn/tensor/modules.hpp>
#include <mn/trainer/triggers.hpp>

namespace mn {

class Summary;
class Trainer;

// Chainer's priorities; the highest runs first.
inline constexpr int kPriorityWriter = 300;  ///< extensions that report values for other extensions
inline constexpr int kPriorityEditor = 200;  ///< extensions that derive values from reported values
inline constexpr int kPriorityReader = 100;  ///< the default; functions and the log have it, too
/// Extensions that show or judge whole entries of the log: they run after all extensions that report values.
inline constexpr int kPriorityReport = 50;
inline constexpr int kPriorityLast = -100;  ///< snapshots, which hold the state of every other extension

/// How long run() of an extension may take.
enum class Duration {
  kShort,    ///< at most about a second
  kLong,     ///< any time; a checkpoint that is due in the same iteration is complete before run() begins
  kInParts,  ///< any time, with Trainer::pauses() between its parts; a checkpoint that is due is begun before run()
};

/// Leaves run() if a signal or the time limit ends training: Trainer::pauses() throws it on all ranks.
class Interrupted final : public std::exception {
 public:
  /// Text for a program that does not catch the exception.
  [[nodiscard]] const char* what() const noexcept override { return "interrupted: training ends"; }
};

/// Base of all extensions. The Trainer calls every member except after_forward() and observe() on all ranks at the
/// same point, so these members may be collective; only rank 0 writes and prints.
///
/// Example (tests/train/header_examples_test.cpp):
///
///   class CountUpdates final : public Extension {
///     std::string name() const override { return "CountUpdates"; }
///     void run(Trainer& trainer) override { trainer.report("updates", static_cast<double>(++updates_)); }
///     nlohmann::json state() const override { return updates_; }  // in each checkpoint
///     void load_state(const nlohmann::json& state) override { updates_ = state.get<std::int64_t>(); }
///     std::int64_t updates_ = 0;
///   };
///   trainer.extend(std::make_unique<CountUpdates>());
class Extension {
 public:
  virtual ~Extension() = default;

  /// Key of the extension's state in a checkpoint. extend() can replace it; the names in a trainer are distinct.
  [[nodiscard]] virtual std::string name() const = 0;
  /// When run() is called, unless extend() gives another trigger.
  [[nodiscard]] virtual Interval trigger() const { return {1, IntervalUnit::kIteration}; }
  /// Order among extensions that fire in one iteration, unless extend() gives another priority.
  [[nodiscard]] virtual int priority() const { return kPriorityReader; }

  /// An extension that is not short does not begin once a signal or the time limit has asked for the end. The
  /// checkpoint then lists it and all later extensions as pending, and a resumed training runs them first.
  [[nodiscard]] virtual Duration duration() const { return Duration::kShort; }
  /// Whether run() writes a checkpoint. If so, it runs before extensions that are not short.
  [[nodiscard]] virtual bool saves() const { return false; }

  /// Called once, before the first iteration and after a resumed state was loaded.
  virtual void initialize(Trainer&) {}
  /// Called after each forward pass, before backward; `loss` still has its graph. Not collective: a rank skips
  /// minibatches in which its loss has no weight.
  virtual void after_forward(Trainer&, const at::Tensor& /*loss*/) {}
  /// Called after after_forward() with the minibatch's loss and the metrics that the loss function reported. Not
  /// collective.
  virtual void observe(const at::Tensor& /*loss*/, const Summary& /*metrics*/) {}
  /// Called each time the trigger fires.
  virtual void run(Trainer&) {}
  /// Called in the last iteration of training, before extensions of kPriorityReport, unless run() was called there: an
  /// extension that reports a period reports the rest of it. Not called if a signal or the time limit interrupts
  /// training, because an interrupted training will continue.
  virtual void at_end(Trainer&) {}
  /// Called when another extension reports a value (Trainer::report()). Returns true if this extension adds the value
  /// to its own report of the same iteration; otherwise the next take_observation() has the value.
  virtual bool take_report(Trainer&, const std::string& /*name*/, double /*value*/) { return false; }
  /// Called once, when training ends without an error.
  virtual void finalize(Trainer&) {}

  /// State for a checkpoint, which keeps rank 0's.
  [[nodiscard]] virtual nlohmann::json state() const;
  /// Called before initialize(), on all ranks, with rank 0's state().
  virtual void load_state(const nlohmann::json&) {}
  /// Tensors for a checkpoint, which keeps rank 0's under the extension's name. Not collective.
  [[nodiscard]] virtual NamedTensors tensors() const { return {}; }
  /// Whether tensors() are equal on all ranks: if so, each rank writes a part of them.
  [[nodiscard]] virtual bool are_tensors_replicated() const { return false; }
  /// Called before initialize(), on all ranks, with rank 0's tensors() on the CPU, unless the checkpoint has none.
  virtual void load_tensors(const NamedTensors&) {}
};

/// Overrides an extension's own trigger, priority or name; see Trainer::extend().
struct ExtendOptions {
  std::optional<Interval> trigger = {};  ///< when run() is called
  std::optional<int> priority = {};      ///< the highest runs first; equal priorities run in the order of extend()
  std::string name = {};                 ///< key of the state in a checkpoint; empty: the extension's own name
};

/// Trigger of an extension that only keeps a state: run() is never called.
[[nodiscard]] inline Interval never() {
  return {static_cast<double>(std::numeric_limits<std::int64_t>::max()), IntervalUnit::kIteration};
}

}  // namespace mn

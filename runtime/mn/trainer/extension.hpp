/// Chainer's extensions: work of a Trainer besides training (reports, evaluation, snapshots, plots).
#pragma once

#include <cstdint>
#include <exception>
#include <limits>
#include <optional>
#include <string>
#include <vector>

#include <ATen/core/Tensor.h>
#include <nlohmann/json_fwd.hpp>

#include <mn/tensor/modules.hpp>
#include <mn/trainer/summary.hpp>
#include <mn/trainer/triggers.hpp>

namespace mn {

class Communicator;
class Trainer;

// Chainer's priorities; the extension with the highest priority runs first.
inline constexpr int kPriorityWriter = 300;  ///< reports values
inline constexpr int kPriorityEditor = 200;  ///< derives values from reported values
inline constexpr int kPriorityReader = 100;  ///< the default, also for functions and for LogReport
inline constexpr int kPriorityReport = 50;   ///< shows or judges whole entries of the log
inline constexpr int kPriorityLast = -100;   ///< snapshots, with the states of all extensions

/// How long run() of an extension may take.
enum class Duration {
  kShort,    ///< at most about a second
  kLong,     ///< any time; a checkpoint due in the iteration is complete before run() begins
  kInParts,  ///< any time, with Trainer::pauses() between parts; a checkpoint due in the iteration begins before run()
};

/// Trainer::pauses() throws Interrupted on all ranks if a signal or the time limit ends training.
class Interrupted final : public std::exception {
 public:
  /// The text that a program shows if nothing catches the exception.
  [[nodiscard]] const char* what() const noexcept override { return "interrupted: training ends"; }
};

/// Base of all extensions. The Trainer calls every member except after_forward() and observe() on all ranks in equal
/// order, so these members may make collective calls. By convention, only rank 0 writes and prints. Members that load a
/// state are called by Trainer::resume(), or by extend() if the extension is added after resume(). A program that
/// overrides state() includes <nlohmann/json.hpp>.
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

  /// Key of the extension's state in a checkpoint. No two extensions of a trainer may have equal names; extend() can
  /// replace the name.
  [[nodiscard]] virtual std::string name() const = 0;
  /// When run() is called, unless extend() gives a trigger.
  [[nodiscard]] virtual Interval trigger() const { return {1, IntervalUnit::kIteration}; }
  /// Order among the extensions of an iteration, unless extend() gives a priority.
  [[nodiscard]] virtual int priority() const { return kPriorityReader; }

  /// Once a signal or the time limit has asked for the end, only short extensions begin. The checkpoint then lists the
  /// first long extension and all later extensions as pending, and a resumed training runs all pending extensions
  /// first.
  [[nodiscard]] virtual Duration duration() const { return Duration::kShort; }
  /// Whether run() writes a checkpoint. If so, the extension runs before all extensions that are not short.
  [[nodiscard]] virtual bool saves() const { return false; }

  /// Called once, before the first iteration and after a resumed state was loaded.
  virtual void initialize(Trainer&) {}
  /// Called after each forward pass, before backward; `loss` has a graph. Not collective: a rank skips minibatches
  /// without a weight in the loss.
  virtual void after_forward(Trainer&, const at::Tensor& /*loss*/) {}
  /// Called after after_forward() with the minibatch's loss and the loss function's metrics. Not collective.
  virtual void observe(const at::Tensor& /*loss*/, const Summary& /*metrics*/) {}
  /// Whether observe_all() is called.
  [[nodiscard]] virtual bool observes_all() const { return false; }
  /// Called before each run() with the values of all ranks' minibatches since the last call, combined over all ranks:
  /// "main/loss" and "main/NAME" for each metric, as the log has them. Each run() of such an extension costs one
  /// message. Checkpoints hold the values since the last call.
  virtual void observe_all(Trainer&, const Metrics& /*values*/) {}
  /// Called each time the trigger fires.
  virtual void run(Trainer&) {}
  /// Reports the rest of a period. Called in the last iteration of training, before extensions of kPriorityReport,
  /// unless run() was called in that iteration. Not called if a signal or the time limit interrupts training, because
  /// an interrupted training will continue.
  virtual void at_end(Trainer&) {}
  /// Called when an extension reports a value (Trainer::report()). Returns true if the value is now in a report of the
  /// iteration; otherwise the next take_observation() has the value.
  virtual bool take_report(Trainer&, const std::string& /*name*/, double /*value*/) { return false; }
  /// Called once, if training ends without an error.
  virtual void finalize(Trainer&) {}

  /// State for a checkpoint, which holds only rank 0's state.
  [[nodiscard]] virtual nlohmann::json state() const;
  /// Called on all ranks with rank 0's state(), after all members that load tensors.
  virtual void load_state(const nlohmann::json&) {}
  /// Tensors for a checkpoint, which holds only rank 0's tensors, under the extension's name. Not collective.
  [[nodiscard]] virtual NamedTensors tensors() const { return {}; }
  /// Whether tensors() are equal on all ranks. If so, each rank writes a part of the tensors to the checkpoint.
  [[nodiscard]] virtual bool are_tensors_replicated() const { return false; }
  /// Called on all ranks with rank 0's tensors() on the CPU, unless the checkpoint has none.
  virtual void load_tensors(const NamedTensors&) {}

  /// State that differs by rank, for a checkpoint in which each rank saves its own tensors. Not collective. Undefined
  /// tensors are left out. extensions::RankState is the extension that has nothing but such a state.
  [[nodiscard]] virtual NamedTensors rank_tensors() const { return {}; }
  /// Called with this rank's rank_tensors() on the CPU, unless the checkpoint has none of this rank.
  virtual void load_rank_tensors(const NamedTensors&) {}
  /// Called in place of load_rank_tensors(), on all ranks, if another number of ranks has saved the checkpoint: makes
  /// the state of rank comm.rank() from the rank_tensors() of all those ranks, saved[rank]. By default throws a
  /// DataError that names both numbers of ranks.
  virtual void map_rank_tensors(const std::vector<NamedTensors>& saved, const Communicator& comm);
};

/// Overrides an extension's own trigger, priority or name; see Trainer::extend().
struct ExtendOptions {
  std::optional<Interval> trigger = {};  ///< when run() is called
  std::optional<int> priority = {};      ///< the highest runs first; equal priorities run in the order of extend()
  std::string name = {};                 ///< key of the state in a checkpoint; empty: the extension's own name
};

/// Trigger that never fires: for an extension that only keeps a state.
[[nodiscard]] inline Interval never() {
  return {static_cast<double>(std::numeric_limits<std::int64_t>::max()), IntervalUnit::kIteration};
}

}  // namespace mn

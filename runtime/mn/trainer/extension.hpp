/// Extensions, as in Chainer: work of a Trainer besides training, such as reports, evaluation, snapshots and plots.
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

class Trainer;

// Priorities of extensions, as in Chainer. The extension with the highest priority runs first.
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

/// How long extensions have kept this rank's training waiting.
struct ExtensionTimes {
  double validation_s = 0;  ///< seconds of extensions that may take long, such as validations
  double checkpoint_s = 0;  ///< seconds of extensions that save; of a save in the background only the time of the copy
};

/// Thrown by Trainer::pauses() on all ranks if a signal or the time limit ends training.
class Interrupted final : public std::exception {
 public:
  /// The text that a program shows if nothing catches the exception.
  [[nodiscard]] const char* what() const noexcept override { return "interrupted: training ends"; }
};

/// Base of all extensions. The Trainer calls every member except after_forward() and observe() on all ranks in the same
/// order; therefore these members may make collective calls. By convention, only rank 0 writes and prints. Members that
/// load a state are called by Trainer::resume(), or by extend() if the extension is added after resume(). A program
/// that overrides state() includes <nlohmann/json.hpp>.
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

  /// The extension's name. In a checkpoint it is the key of the extension's state. No two extensions of a trainer may
  /// have the same name; extend() can give another name.
  [[nodiscard]] virtual std::string name() const = 0;
  /// Returns the interval at which run() is called. extend() can give another trigger.
  [[nodiscard]] virtual Interval trigger() const { return {1, IntervalUnit::kIteration}; }
  /// The place of the extension among the extensions of an iteration. extend() can give another priority.
  [[nodiscard]] virtual int priority() const { return kPriorityReader; }

  /// Once a signal or the time limit has asked for the end, only short extensions begin. The checkpoint then lists the
  /// first long extension and all later extensions as pending, and a resumed training runs all pending extensions
  /// first.
  [[nodiscard]] virtual Duration duration() const { return Duration::kShort; }
  /// True if run() writes a checkpoint. Such an extension runs before all extensions that are not short.
  [[nodiscard]] virtual bool saves() const { return false; }

  /// Called once, before the first iteration. After a resume, the state is loaded before.
  virtual void initialize(Trainer&) {}
  /// Called after each forward pass, before the backward pass; `loss` has its graph. Not collective: a rank skips
  /// minibatches whose weight in the loss is 0.
  virtual void after_forward(Trainer&, const at::Tensor& /*loss*/) {}
  /// Called after after_forward(), with the minibatch's loss and the metrics of the loss function. Not collective.
  virtual void observe(const at::Tensor& /*loss*/, const Summary& /*metrics*/) {}
  /// True if the Trainer is to call observe_all().
  [[nodiscard]] virtual bool observes_all() const { return false; }
  /// Called before each run(), with the values of the minibatches since the last call, combined over all ranks:
  /// "main/loss" and "main/NAME" for each metric, as the log has them. Each run() of such an extension costs one
  /// message. Checkpoints hold the values since the last call.
  virtual void observe_all(Trainer&, const Metrics& /*values*/) {}
  /// Does the extension's work. Called each time the trigger fires.
  virtual void run(Trainer&) {}
  /// Reports what the extension has seen since its last run(). Called in the last iteration of training, before the
  /// extensions with kPriorityReport, unless run() was called in this iteration. Not called if a signal or the time
  /// limit interrupts training, because an interrupted training will continue.
  virtual void at_end(Trainer&) {}
  /// Called by Trainer::average_kept_statistics(): averages over ranks the running statistics that the extension keeps.
  virtual void average_kept_statistics(Trainer&) {}
  /// Called when an extension reports a value (Trainer::report()). Return true if the extension has added the value to
  /// its report of this iteration; if no extension has, the next take_observation() returns the value.
  virtual bool take_report(Trainer&, const std::string& /*name*/, double /*value*/) { return false; }
  /// Called once, at the end, if training ends without an error.
  virtual void finalize(Trainer&) {}

  /// Returns the state of the extension, for a checkpoint. Only rank 0's state is stored.
  [[nodiscard]] virtual nlohmann::json state() const;
  /// Called on all ranks with rank 0's state(), after the functions that load tensors.
  virtual void load_state(const nlohmann::json&) {}
  /// Returns the tensors of the extension's state, for a checkpoint. Only rank 0's tensors are stored, under the
  /// extension's name. Not collective.
  [[nodiscard]] virtual NamedTensors tensors() const { return {}; }
  /// True if tensors() are the same on all ranks. Each rank can then write a part of them to the checkpoint.
  [[nodiscard]] virtual bool are_tensors_replicated() const { return false; }
  /// Called on all ranks with rank 0's tensors(), which are on the CPU. Not called if the checkpoint has none.
  virtual void load_tensors(const NamedTensors&) {}

  /// Returns the tensors of a state that differs from rank to rank, for a checkpoint. Each rank saves its own tensors.
  /// Not collective. Undefined tensors are left out. extensions::RankState is an extension that only has such a state.
  [[nodiscard]] virtual NamedTensors rank_tensors() const { return {}; }
  /// Called with this rank's rank_tensors(), which are on the CPU. Not called if the checkpoint has none of this rank.
  virtual void load_rank_tensors(const NamedTensors&) {}
  /// Called in place of load_rank_tensors(), on all ranks, if more or fewer ranks have saved the checkpoint than run
  /// now. saved[r] has the rank_tensors() of rank r at that time; the function makes the state of rank comm.rank() from
  /// all of them. By default throws a DataError that names both numbers of ranks.
  virtual void map_rank_tensors(const std::vector<NamedTensors>& saved, const Communicator& comm);
};

/// Replaces the trigger, the priority or the name that an extension itself gives; see Trainer::extend().
struct ExtendOptions {
  std::optional<Interval> trigger = {};  ///< when run() is called
  std::optional<int> priority = {};      ///< the highest runs first; equal priorities run in the order of extend()
  std::string name = {};                 ///< key of the state in a checkpoint; empty: the extension's own name
};

/// A trigger that never fires, for an extension that only keeps a state.
[[nodiscard]] inline Interval never() {
  return {static_cast<double>(std::numeric_limits<std::int64_t>::max()), IntervalUnit::kIteration};
}

}  // namespace mn

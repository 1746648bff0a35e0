/// Defines extensions, as in Chainer. Extensions do a Trainer's work besides training, such as reports, evaluation,
/// snapshots and plots.
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

// Priorities of extensions, as in Chainer. In an iteration, the extension with the highest priority runs first.
inline constexpr int kPriorityWriter = 300;  ///< reports values
inline constexpr int kPriorityEditor = 200;  ///< derives values from reported values
inline constexpr int kPriorityReader = 100;  ///< the default, also for functions and for LogReport
inline constexpr int kPriorityReport = 50;   ///< shows or judges whole entries of the log
inline constexpr int kPriorityLast = -100;   ///< snapshots, with the states of all extensions

/// How long run() of an extension may take.
enum class Duration {
  kShort,    ///< at most about a second
  kLong,     ///< any time; if a checkpoint is due in the iteration, it is complete before run()
  kInParts,  ///< any time, with Trainer::pauses() between parts; a checkpoint due in the iteration begins before run()
};

/// How long extensions have kept this rank's training waiting. All times are in seconds.
struct ExtensionTimes {
  double validation_s = 0;  ///< time of extensions that may take long, such as validations
  double checkpoint_s = 0;  ///< time of extensions that save; a save in the background counts only while it copies
};

/// Thrown by Trainer::pauses() on all ranks if a signal or the time limit ends training.
class Interrupted final : public std::exception {
 public:
  /// Returns the text that a program shows if it does not catch the exception.
  [[nodiscard]] const char* what() const noexcept override { return "interrupted: training ends"; }
};

/// The base class of all extensions. The Trainer calls the members on all ranks in the same order, so the members may
/// make collective calls; after_forward() and observe() are exceptions. By convention, only rank 0 writes and prints.
/// Trainer::resume() calls the members that load a state. If the extension is added after resume(), extend() calls
/// them. A program that overrides state() includes <nlohmann/json.hpp>.
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
  /// The extension's priority: in an iteration, the extension with the highest priority runs first. extend() can give
  /// another priority.
  [[nodiscard]] virtual int priority() const { return kPriorityReader; }

  /// How long run() may take. Once a signal or the time limit has asked for the end of training, only extensions with
  /// kShort still begin. The checkpoint then lists the first longer extension and all extensions after it as pending.
  /// When training resumes, it runs all pending extensions first.
  [[nodiscard]] virtual Duration duration() const { return Duration::kShort; }
  /// True if run() writes a checkpoint. Such an extension runs before all extensions that are not kShort.
  [[nodiscard]] virtual bool saves() const { return false; }

  /// Called once, before the first iteration. After a resume, the extension has its state from the checkpoint already.
  virtual void initialize(Trainer&) {}
  /// Called after each forward pass and before the backward pass; `loss` still has its autograd graph. Not collective,
  /// because a rank does not call it for a minibatch whose weight in the loss is 0.
  virtual void after_forward(Trainer&, const at::Tensor& /*loss*/) {}
  /// Called after after_forward(), with the minibatch's loss and with the metrics of the loss function. Not collective.
  virtual void observe(const at::Tensor& /*loss*/, const Summary& /*metrics*/) {}
  /// True if the Trainer is to call observe_all() before each run().
  [[nodiscard]] virtual bool observes_all() const { return false; }
  /// If observes_all(), called before each run(). `values` combines, over all ranks, the minibatches since the previous
  /// call: "main/loss", and "main/NAME" for each metric, as in the log. Each run() of such an extension costs one
  /// message. Checkpoints hold the values since the previous call.
  virtual void observe_all(Trainer&, const Metrics& /*values*/) {}
  /// Does the extension's work. Called each time the trigger fires.
  virtual void run(Trainer&) {}
  /// Reports what the extension has seen since its last run(). Called in the last iteration of training, before the
  /// extensions with kPriorityReport, unless run() was called in this iteration. Not called if a signal or the time
  /// limit ends training early, because a later run continues such a training.
  virtual void at_end(Trainer&) {}
  /// Called by Trainer::average_kept_statistics(). If the extension keeps running statistics, averages them over the
  /// ranks.
  virtual void average_kept_statistics(Trainer&) {}
  /// Called when an extension reports a value (Trainer::report()). Returns true if this extension has added the value
  /// to its report of the iteration. If no extension returns true, the next take_observation() returns the value.
  virtual bool take_report(Trainer&, const std::string& /*name*/, double /*value*/) { return false; }
  /// Called once, at the end of training, unless training ends with an error.
  virtual void finalize(Trainer&) {}

  /// Returns the state of the extension for a checkpoint. The checkpoint stores only rank 0's state.
  [[nodiscard]] virtual nlohmann::json state() const;
  /// Called on all ranks with rank 0's state() from a checkpoint, before anything is loaded. `source` names the
  /// checkpoint in errors. Throws a DataError on every rank if the training can't resume from the checkpoint.
  virtual void check_state(const nlohmann::json& /*state*/, const std::string& /*source*/) const {}
  /// Called on all ranks with rank 0's state() from the checkpoint, after the functions that load tensors.
  virtual void load_state(const nlohmann::json&) {}
  /// Returns the tensors of the extension's state for a checkpoint. The checkpoint stores only rank 0's tensors, under
  /// the extension's name. Not collective.
  [[nodiscard]] virtual NamedTensors tensors() const { return {}; }
  /// True if tensors() returns equal tensors on all ranks. Each rank can then write a part of the tensors to the
  /// checkpoint.
  [[nodiscard]] virtual bool are_tensors_replicated() const { return false; }
  /// Called on all ranks with rank 0's tensors() from the checkpoint; they are on the CPU. Not called if the checkpoint
  /// has no such tensors.
  virtual void load_tensors(const NamedTensors&) {}

  /// Returns the tensors of a state that differs from rank to rank, for a checkpoint. Each rank saves its own tensors.
  /// Not collective. Undefined tensors are left out. extensions::RankState is an extension for programs that have only
  /// such a state.
  [[nodiscard]] virtual NamedTensors rank_tensors() const { return {}; }
  /// Called with this rank's rank_tensors() from the checkpoint; they are on the CPU. Not called if the checkpoint has
  /// no tensors of this rank.
  virtual void load_rank_tensors(const NamedTensors&) {}
  /// Called on all ranks, in place of load_rank_tensors(), if the checkpoint was saved by more or fewer ranks than run
  /// now. saved[r] has the rank_tensors() of rank r in the earlier run. From all of them, the function makes the state
  /// of rank comm.rank(). By default it throws a DataError that names both numbers of ranks.
  virtual void map_rank_tensors(const std::vector<NamedTensors>& saved, const Communicator& comm);
};

/// Replaces the trigger, the priority or the name of an extension; see Trainer::extend().
struct ExtendOptions {
  std::optional<Interval> trigger = {};  ///< when run() is called
  std::optional<int> priority = {};      ///< the highest runs first; of equal priorities, the first added
  std::string name = {};                 ///< key of the state in a checkpoint; empty: the extension's own name
};

/// A trigger that never fires, for an extension that only keeps a state.
[[nodiscard]] inline Interval never() {
  return {static_cast<double>(std::numeric_limits<std::int64_t>::max()), IntervalUnit::kIteration};
}

}  // namespace mn

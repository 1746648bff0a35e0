/// What a Trainer does besides training (reports, evaluation, snapshots, plots): Chainer's extensions.
#pragma once

#include <exception>
#include <functional>
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
inline constexpr int kPriorityWriter = 300;  ///< for extensions that report values which others read
inline constexpr int kPriorityEditor = 200;  ///< for those that report values made of these
inline constexpr int kPriorityReader = 100;  ///< the default, also of functions and of the log
/// What shows or judges whole entries of the log: after all that report values.
inline constexpr int kPriorityReport = 50;
inline constexpr int kPriorityLast = -100;  ///< after all others: snapshots, which hold the others' states

/// How long run() of an extension may take.
enum class Duration {
  kShort,    ///< at most about a second
  kLong,     ///< any time; a checkpoint that is due in the same iteration is complete before it begins
  kInParts,  ///< any time, with a call of Trainer::pauses() between its parts; such a checkpoint is begun before
};

/// Thrown through run() where a signal or the time limit ends training: Trainer::pauses() throws it on all ranks.
class Interrupted final : public std::exception {
 public:
  /// For who does not catch it.
  [[nodiscard]] const char* what() const noexcept override { return "interrupted: training ends"; }
};

/// Base of all extensions. The Trainer calls every member but after_forward() and observe() on all ranks at the same
/// point, so it may be collective; only rank 0 writes and prints.
class Extension {
 public:
  virtual ~Extension() = default;

  /// The key of its state in a checkpoint. extend() can replace it; a trainer has one extension of a name.
  [[nodiscard]] virtual std::string name() const = 0;
  /// When run() is called, unless extend() gives another trigger.
  [[nodiscard]] virtual Interval trigger() const { return {1, IntervalUnit::kIteration}; }
  /// Order among extensions that fire in one iteration, unless extend() gives another.
  [[nodiscard]] virtual int priority() const { return kPriorityReader; }

  /// What is not short does not begin where a signal or the time limit has asked for the end. The checkpoint then says
  /// that it is pending, with those after it, and a training that resumes runs them first.
  [[nodiscard]] virtual Duration duration() const { return Duration::kShort; }
  /// Whether run() writes a checkpoint, so that it comes before what is not short.
  [[nodiscard]] virtual bool saves() const { return false; }

  /// Once, before the first iteration, after a resumed state was loaded.
  virtual void initialize(Trainer&) {}
  /// After the forward pass of each minibatch in which this rank's loss has a weight, so not collective; `loss` still
  /// has its graph.
  virtual void after_forward(Trainer&, const at::Tensor& /*loss*/) {}
  /// After that, with what the minibatch has: its loss, and what the loss function reported. Not collective either.
  virtual void observe(const at::Tensor& /*loss*/, const Summary& /*metrics*/) {}
  /// Each time the trigger fires.
  virtual void run(Trainer&) {}
  /// In the last iteration of training, before extensions of kPriorityReport, if run() was not called there: for what
  /// reports a period, of which a part is left. Not when a signal or the time limit interrupts training, which goes on.
  virtual void at_end(Trainer&) {}
  /// Called when an extension reports a value (Trainer::report()); true if this one takes it for what it has reported
  /// in the same iteration. Else the next take_observation() has it.
  virtual bool take_report(Trainer&, const std::string& /*name*/, double /*value*/) { return false; }
  /// Once, when training ends without an error.
  virtual void finalize(Trainer&) {}

  /// What a checkpoint keeps of it: rank 0's value.
  [[nodiscard]] virtual nlohmann::json state() const;
  /// Called before initialize() with rank 0's state(), on all ranks.
  virtual void load_state(const nlohmann::json&) {}
  /// What a checkpoint keeps of it beside that, in tensors with names of its own: rank 0's. Not collective.
  [[nodiscard]] virtual NamedTensors tensors() const { return {}; }
  /// Whether these are the same on all ranks: then each writes a part of them.
  [[nodiscard]] virtual bool are_tensors_replicated() const { return false; }
  /// Called before initialize(), where the checkpoint has tensors of it, with rank 0's tensors(), on the CPU.
  virtual void load_tensors(const NamedTensors&) {}
};

/// How an extension runs, where it differs from the extension's own values.
struct ExtendOptions {
  std::optional<Interval> trigger = {};  ///< when it runs
  std::optional<int> priority = {};      ///< the highest runs first; equal ones in the order added
  std::string name = {};                 ///< key of its state in a checkpoint; empty: its own name
};

}  // namespace mn

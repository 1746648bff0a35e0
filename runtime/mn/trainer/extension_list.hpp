/// The extensions of a Trainer: their order, the iterations in which they run, and their states in a checkpoint.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include <mn/core/json.hpp>
#include <mn/trainer/extension.hpp>
#include <mn/trainer/summary.hpp>

namespace mn {

/// How far a training has come after an iteration.
struct Progress {
  std::int64_t iteration = 0;  ///< number of the iteration that has ended
  double previous_epoch_detail = 0;
  double epoch_detail = 0;
};

/// The extensions of one Trainer. All ranks must make the same calls in the same order.
class ExtensionList {
 public:
  /// `elapsed_s` returns how many seconds the training has taken so far. `comm` connects the ranks that train.
  ExtensionList(Communicator* comm, std::function<double()> elapsed_s)
      : comm_(comm), elapsed_s_(std::move(elapsed_s)) {}

  /// Throws ArgumentError if another extension already has this name.
  void add(std::unique_ptr<Extension> extension, const ExtendOptions& options);

  /// Adds to the checkpoint's object `about` the states of all extensions. Also adds the names of the extensions that
  /// are pending, and of those that have run in `iteration`.
  void save(nlohmann::json& about, std::int64_t iteration) const;
  /// What a checkpoint holds about extensions.
  struct Restored {
    nlohmann::json about;                   ///< the object filled by save(); null: no state
    NamedTensors tensors;                   ///< named "EXTENSION/TENSOR"
    NamedTensors own;                       ///< this rank's tensors, if the number of ranks is unchanged
    std::vector<NamedTensors> other_ranks;  ///< tensors of each rank, if the number of ranks has changed
    std::vector<nlohmann::json> observed;   ///< each rank_state() whose observations this rank gets
  };
  /// Calls check_state() of each extension. `about` is the checkpoint's part about the training.
  void check(const nlohmann::json& about, const std::string& source) const;
  /// Gives each extension its state. An extension that is added later, but before initialize(), also gets its state.
  void load(Restored restored);
  /// Returns the tensors() with are_tensors_replicated() == `replicated`, named "EXTENSION/TENSOR".
  [[nodiscard]] NamedTensors tensors(bool replicated) const;
  /// Returns the rank_tensors() of all extensions. Each tensor is named "EXTENSION/TENSOR".
  [[nodiscard]] NamedTensors rank_tensors() const;

  /// Adds the values of a minibatch or an update to the observations of extensions with observes_all().
  void observe_all(const Summary& values);
  /// Returns, by the extension's name, what this rank has observed for each extension for which observes_all() is true.
  [[nodiscard]] nlohmann::json rank_state() const;

  void initialize(Trainer& trainer);
  void after_forward(Trainer& trainer, const at::Tensor& loss);
  void observe(const at::Tensor& loss, const Summary& metrics);
  /// Called before an extension runs. If MayBegin returns false, this extension and all later extensions stay pending.
  using MayBegin = std::function<bool(Duration)>;
  /// kReporting: priorities above kPriorityReport. kReading: all other extensions, which need the complete report.
  enum class Part { kReporting, kReading };
  /// Marks each extension as pending whose trigger fires in the iteration that has just ended.
  void find_due(const Progress& progress);
  /// Runs the pending extensions of `part`. Returns false if one may not begin, or was interrupted.
  [[nodiscard]] bool run_pending(Trainer& trainer, const Progress& progress, Part part, const MayBegin& may_begin);
  /// Calls at_end() of each extension that is not pending and has not run in this iteration. If at_end() is
  /// interrupted, the extension becomes pending.
  void run_at_end(Trainer& trainer, const Progress& progress);
  [[nodiscard]] bool any_pending() const;
  [[nodiscard]] bool is_pending(const Extension& extension) const;
  /// While an extension runs, offers the value to all extensions. True if an extension has taken the value.
  bool take_report(Trainer& trainer, const std::string& name, double value);
  void finalize(Trainer& trainer);
  void average_kept_statistics(Trainer& trainer) const {
    for (const Entry& each : entries_) each.extension->average_kept_statistics(trainer);
  }
  /// Returns how long run() and at_end() of extensions took in total, over all iterations of this process.
  [[nodiscard]] const ExtensionTimes& times() const noexcept { return times_; }

  /// True if the trigger of any extension counts seconds. Rank 0's clock must then decide for all ranks when it fires.
  [[nodiscard]] bool any_by_seconds() const;
  /// Returns, for each trigger that counts seconds, 1 if its period is over by this rank's clock, else 0.
  [[nodiscard]] std::vector<std::int64_t> due() const;
  /// Stores the flags of due() on which all ranks have agreed. The next find_due() uses these flags.
  void set_due(std::span<const std::int64_t> flags);

 private:
  struct Entry {
    std::string name;
    std::unique_ptr<Extension> extension;
    Interval trigger;
    int priority;
    double last_run_s;            // seconds of training before the last run()
    std::int64_t last_iteration;  // iteration of the last run()
    bool due;                     // set by set_due(): a trigger in seconds fires
    bool is_pending = false;
    Summary observed = {};  // if observes_all(): this rank's values since the last run()
  };

  static bool fires(Entry& entry, const Progress& progress);
  void restore(Entry& entry) const;
  [[nodiscard]] bool run_one(Trainer& trainer, const Progress& progress, Entry& entry, const MayBegin& may_begin);
  [[nodiscard]] bool call(Entry& entry, const std::function<void()>& member);

  Communicator* comm_;
  std::function<double()> elapsed_s_;
  std::vector<Entry> entries_;  // by priority, the highest first
  Restored restored_;           // from load() until initialize()
  bool is_running_ = false;     // while an extension runs: take_report() offers each reported value to all extensions
  ExtensionTimes times_;
};

}  // namespace mn

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

/// Position of a training after an iteration.
struct Progress {
  std::int64_t iteration = 0;  ///< number of the ended iteration
  double previous_epoch_detail = 0;
  double epoch_detail = 0;
};

/// All ranks make equal calls in equal order.
class ExtensionList {
 public:
  /// Seconds in run() and at_end() of extensions that save, and of all others that are not short.
  struct Times {
    double saving_s = 0;
    double long_s = 0;
  };

  /// `elapsed_s` returns the seconds of training up to now; `comm` are the training ranks.
  ExtensionList(Communicator* comm, std::function<double()> elapsed_s)
      : comm_(comm), elapsed_s_(std::move(elapsed_s)) {}

  /// Throws ArgumentError if the extension's name is in use.
  void add(std::unique_ptr<Extension> extension, const ExtendOptions& options);

  /// Adds to a checkpoint of `iteration` the states of all extensions. Also adds the names of the extensions that are
  /// pending, and of those that have run in `iteration`.
  void save(nlohmann::json& about, std::int64_t iteration) const;
  /// State of extensions in a checkpoint.
  struct Restored {
    nlohmann::json about;                   ///< the object filled by save(); null: no state
    NamedTensors tensors;                   ///< named "EXTENSION/TENSOR"
    NamedTensors own;                       ///< this rank's tensors, if the number of ranks is unchanged
    std::vector<NamedTensors> other_ranks;  ///< tensors of each rank, if the number of ranks has changed
    std::vector<nlohmann::json> observed;   ///< each rank_state() whose observations this rank gets
  };
  /// Gives each extension its state. Extensions that are added later, before initialize(), get their states, too.
  void load(Restored restored);
  /// The tensors, named "EXTENSION/TENSOR", of all extensions with are_tensors_replicated() == `replicated`.
  [[nodiscard]] NamedTensors tensors(bool replicated) const;
  /// The rank_tensors() of all extensions, named "EXTENSION/TENSOR".
  [[nodiscard]] NamedTensors rank_tensors() const;

  /// Adds a minibatch's or an update's values to the observations of extensions with observes_all().
  void observe_all(const Summary& values);
  /// This rank's observations for a checkpoint, by the names of the extensions.
  [[nodiscard]] nlohmann::json rank_state() const;

  void initialize(Trainer& trainer);
  void after_forward(Trainer& trainer, const at::Tensor& loss);
  void observe(const at::Tensor& loss, const Summary& metrics);
  /// Called before each extension runs. If the function returns false, the extension and all later extensions stay
  /// pending.
  using MayBegin = std::function<bool(Duration)>;
  /// kReporting: extensions with a priority above kPriorityReport. kReading: all other extensions, for which the report
  /// must be complete.
  enum class Part { kReporting, kReading };
  /// Marks extensions as pending if their trigger fires in the ended iteration.
  void find_due(const Progress& progress);
  /// Runs the pending extensions of a part. Returns false if an extension may not begin or was interrupted.
  [[nodiscard]] bool run_pending(Trainer& trainer, const Progress& progress, Part part, const MayBegin& may_begin);
  /// Calls at_end() of the extensions that are not pending and were not run in the iteration. An interrupted extension
  /// becomes pending.
  void run_at_end(Trainer& trainer, const Progress& progress);
  [[nodiscard]] bool any_pending() const;
  [[nodiscard]] bool is_pending(const Extension& extension) const;
  /// While extensions run: offers a reported value to each extension. Returns true if an extension has taken the value.
  bool take_report(Trainer& trainer, const std::string& name, double value);
  void finalize(Trainer& trainer);
  /// The times of this process's iterations, added up.
  [[nodiscard]] const Times& times() const noexcept { return times_; }

  /// Whether any trigger counts seconds: then rank 0's clock must decide for all ranks.
  [[nodiscard]] bool any_by_seconds() const;
  /// For each trigger in seconds: 1 if its period is over by this rank's clock, else 0.
  [[nodiscard]] std::vector<std::int64_t> due() const;
  /// Sets the flags of due() on which the ranks have agreed, for the next find_due().
  void set_due(std::span<const std::int64_t> flags);

 private:
  struct Entry {
    std::string name;
    std::unique_ptr<Extension> extension;
    Interval trigger;
    int priority;
    double last_run_s;            // elapsed time at the last run
    std::int64_t last_iteration;  // iteration of the last run
    bool due;                     // whether a trigger in seconds fires, by set_due()
    bool is_pending = false;
    Summary observed = {};  // with observes_all(): values of this rank since the last run()
  };

  class Running;

  static bool fires(Entry& entry, const Progress& progress);
  void restore(Entry& entry) const;
  [[nodiscard]] bool run_one(Trainer& trainer, const Progress& progress, Entry& entry, const MayBegin& may_begin);
  [[nodiscard]] bool call(Entry& entry, const std::function<void()>& member);

  Communicator* comm_;
  std::function<double()> elapsed_s_;
  std::vector<Entry> entries_;  // by priority, the highest first
  Restored restored_;           // of load(), until initialize()
  bool is_running_ = false;
  Times times_;
};

}  // namespace mn

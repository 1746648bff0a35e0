/// The extensions of a Trainer: in which order and when they run, and their states in a checkpoint.
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

namespace mn {

/// Where training stands after an iteration.
struct Progress {
  std::int64_t iteration = 0;  ///< that has ended
  double previous_epoch_detail = 0;
  double epoch_detail = 0;
};

/// Calls come at the same point on every rank.
class ExtensionList {
 public:
  /// `elapsed_s` tells the seconds that training has taken.
  explicit ExtensionList(std::function<double()> elapsed_s) : elapsed_s_(std::move(elapsed_s)) {}

  /// Throws ArgumentError if the name is in use.
  void add(std::unique_ptr<Extension> extension, const ExtendOptions& options);

  /// Adds to a checkpoint of `iteration` the states, and the names of those that are pending and that have run in it.
  void save(nlohmann::json& about, std::int64_t iteration) const;
  /// initialize() hands out what save() has added to this checkpoint.
  void load(const nlohmann::json& about);
  /// The same for tensors(): their names begin with the extension's and a slash.
  void set_tensors(NamedTensors tensors) { restored_tensors_ = std::move(tensors); }
  /// Tensors that are the same on all ranks (Extension::are_tensors_replicated()), or all others.
  [[nodiscard]] NamedTensors tensors(bool replicated) const;

  void initialize(Trainer& trainer);
  void after_forward(Trainer& trainer, const at::Tensor& loss);
  void observe(const at::Tensor& loss, const Summary& metrics);
  /// Asked before each: false ends the run, and it stays pending with those after it.
  using MayBegin = std::function<bool(Duration)>;
  /// Those that report values, and those of kPriorityReport and below, which see whole reports.
  enum class Part { kReporting, kReading };
  /// Those whose trigger fires in the iteration that ended are pending from now on, until they have run.
  void find_due(const Progress& progress);
  /// Runs those of a part that are pending. False if one may not begin, or was interrupted.
  [[nodiscard]] bool run_pending(Trainer& trainer, const Progress& progress, Part part, const MayBegin& may_begin);
  /// at_end() of those that did not run in this iteration and are not to run yet. One that is interrupted is pending.
  void run_at_end(Trainer& trainer, const Progress& progress, const MayBegin& may_begin);
  [[nodiscard]] bool any_pending() const;
  [[nodiscard]] bool is_pending(const Extension& extension) const;
  /// Extension::take_report() of the first that takes it, while extensions run.
  bool take_report(Trainer& trainer, const std::string& name, double value);
  void finalize(Trainer& trainer);

  /// True if a trigger counts seconds: rank 0's clock must decide for all.
  [[nodiscard]] bool any_by_seconds() const;
  /// For each trigger of seconds 1 if its period is over by this rank's clock, else 0.
  [[nodiscard]] std::vector<std::int64_t> due() const;
  /// The due() that all ranks agreed on; run() obeys it.
  void set_due(std::span<const std::int64_t> flags);

 private:
  struct Entry {
    std::string name;
    std::unique_ptr<Extension> extension;
    Interval trigger;
    int priority;
    double last_run_s;            // elapsed time
    std::int64_t last_iteration;  // in which it ran
    bool due;                     // for seconds
    bool is_pending = false;
  };

  class Running;

  static bool fires(Entry& entry, const Progress& progress);
  void restore(Entry& entry) const;
  [[nodiscard]] bool run_one(Trainer& trainer, const Progress& progress, Entry& entry, const MayBegin& may_begin);
  [[nodiscard]] static bool call(Entry& entry, const std::function<void()>& member);

  std::function<double()> elapsed_s_;
  std::vector<Entry> entries_;                          // by priority
  nlohmann::json restored_ = nlohmann::json::object();  // of load(), until initialize()
  NamedTensors restored_tensors_;
  bool is_running_ = false;
};

}  // namespace mn

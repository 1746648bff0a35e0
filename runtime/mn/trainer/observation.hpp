/// Collects what a Trainer observes between two reports: losses, metrics, samples, time and traffic.
#pragma once

#include <cstdint>
#include <string>

#include <ATen/core/Tensor.h>
#include <nlohmann/json_fwd.hpp>

#include <mn/trainer/summary.hpp>

namespace mn {

class Observation {
 public:
  /// `bytes_sent` is the number of bytes that this rank has passed to collective calls so far.
  void begin(std::int64_t iteration, std::uint64_t bytes_sent);

  /// Adds "loss" and the metrics of a minibatch or an update, with the prefix "main/".
  void add(const Summary& values) { means_.merge(values, "main/"); }
  void add_samples(std::int64_t samples) noexcept { samples_ += samples; }
  /// Adds seconds of training. The time of extensions is not training time.
  void add_time(double seconds) noexcept { training_s_ += seconds; }
  /// Sets a reported value, which must be the same on all ranks. It replaces an earlier value of the same name.
  void report(const std::string& name, double value) { reported_[name] = value; }

  /// Adds a value that is equal on all ranks. take() returns the mean of all such values since the last take().
  void report_mean(const std::string& name, double value) { reported_means_.add(name, value); }

  /// Reads losses and metrics. If they are on a GPU, waits until the GPU has computed them.
  void read() { means_.read(); }

  /// Collective: returns the values of all ranks together, and begins a new observation.
  [[nodiscard]] Metrics take(Communicator& comm, std::int64_t iteration, std::uint64_t bytes_sent);

  /// Returns the names of all values observed so far, as a JSON list.
  [[nodiscard]] nlohmann::json names() const;

  /// Adds to the checkpoint's `about` the values that are equal on all ranks, and this rank's number of sent bytes.
  void save(nlohmann::json& about, std::int64_t iteration, std::uint64_t bytes_sent) const;
  void load(const nlohmann::json& about);
  /// Returns the sums over this rank's samples, for a checkpoint.
  [[nodiscard]] nlohmann::json rank_state() const;
  void clear_rank_state();
  /// Adds the sums in `state`, which is a result of rank_state(), to this rank's sums.
  void merge_rank_state(const nlohmann::json& state);

 private:
  Summary means_;                     // values of this rank's samples
  Metrics reported_;                  // equal on all ranks
  Summary reported_means_;            // equal on all ranks
  std::int64_t samples_ = 0;          // number of the rank's samples
  double training_s_ = 0;             // training time without extensions
  std::int64_t first_iteration_ = 0;  // iteration at which this process began to observe
  std::uint64_t first_bytes_ = 0;
  std::int64_t earlier_steps_ = 0;  // number of steps observed before a resume
  std::uint64_t earlier_bytes_ = 0;
};

}  // namespace mn

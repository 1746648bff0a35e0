/// Losses, metrics, samples, time and traffic of a Trainer since the last report.
#pragma once

#include <cstdint>
#include <string>

#include <ATen/core/Tensor.h>
#include <nlohmann/json_fwd.hpp>

#include <mn/trainer/summary.hpp>

namespace mn {

class Observation {
 public:
  /// Starts an observation at `iteration`. `bytes_sent` is the number of bytes that this rank has passed to collectives
  /// so far.
  void begin(std::int64_t iteration, std::uint64_t bytes_sent);

  /// Adds a minibatch's or an update's "loss" and metrics, as "main/loss", …
  void add(const Summary& values) { means_.merge(values, "main/"); }
  void add_samples(std::int64_t samples) noexcept { samples_ += samples; }
  /// Adds training time, without the time of extensions.
  void add_time(double seconds) noexcept { training_s_ += seconds; }
  /// Sets a value, equal on all ranks; an earlier value of `name` is replaced.
  void report(const std::string& name, double value) { reported_[name] = value; }

  /// Waits for losses and metrics on a GPU.
  void read() { means_.read(); }

  /// Collective: returns the metrics, and starts a new observation.
  [[nodiscard]] Metrics take(Communicator& comm, std::int64_t iteration, std::uint64_t bytes_sent);

  /// The names of all values, a JSON list.
  [[nodiscard]] nlohmann::json names() const;

  /// Adds to a checkpoint the values that are equal on all ranks, and the number of bytes that the rank has sent.
  void save(nlohmann::json& about, std::int64_t iteration, std::uint64_t bytes_sent) const;
  /// Loads the values of save().
  void load(const nlohmann::json& about);
  /// The rank's sums over samples, for a checkpoint.
  [[nodiscard]] nlohmann::json rank_state() const;
  /// Forgets the rank's sums.
  void clear_rank_state();
  /// Adds the sums of a rank_state() to the rank's sums.
  void merge_rank_state(const nlohmann::json& state);

 private:
  Summary means_;                     // over the rank's samples
  Metrics reported_;                  // equal on all ranks
  std::int64_t samples_ = 0;          // number of the rank's samples
  double training_s_ = 0;             // training time without extensions
  std::int64_t first_iteration_ = 0;  // iteration at which this process began the observation
  std::uint64_t first_bytes_ = 0;
  std::int64_t earlier_steps_ = 0;  // steps of the observation before a resume
  std::uint64_t earlier_bytes_ = 0;
};

}  // namespace mn

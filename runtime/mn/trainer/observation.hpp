/// Losses, metrics, samples, time and traffic of a Trainer since its last report.
#pragma once

#include <cstdint>
#include <string>

#include <ATen/core/Tensor.h>
#include <nlohmann/json_fwd.hpp>

#include <mn/trainer/summary.hpp>

namespace mn {

class Observation {
 public:
  /// Starts an observation at `iteration`, when this rank has passed `bytes_sent` bytes to collectives.
  void begin(std::int64_t iteration, std::uint64_t bytes_sent);

  /// Adds the mean loss of a minibatch.
  void add_loss(const at::Tensor& loss, double weight) { means_.add("main/loss", loss, weight); }
  /// Adds the metrics of a step, as "main/NAME".
  void add_metrics(const Summary& metrics) { means_.merge(metrics, "main/"); }
  /// Adds to the number of samples.
  void add_samples(std::int64_t samples) noexcept { samples_ += samples; }
  /// Adds training time; the time of extensions does not count.
  void add_time(double seconds) noexcept { training_s_ += seconds; }
  /// Sets a value that is equal on all ranks, and replaces an earlier value of the same name.
  void report(const std::string& name, double value) { reported_[name] = value; }

  /// Waits for losses and metrics on a GPU.
  void read() { means_.read(); }

  /// Collective: returns the metrics and clears them.
  [[nodiscard]] Metrics take(Communicator& comm, std::int64_t iteration, std::uint64_t bytes_sent);

  /// The names of all values, a JSON list.
  [[nodiscard]] nlohmann::json names() const;

  /// Adds the values that are equal on all ranks, and this rank's bytes, to a checkpoint.
  void save(nlohmann::json& about, std::int64_t iteration, std::uint64_t bytes_sent) const;
  /// Loads the values that save() has added.
  void load(const nlohmann::json& about);
  /// This rank's sums over its samples, for a checkpoint.
  [[nodiscard]] nlohmann::json rank_state() const;
  /// Forgets this rank's sums.
  void clear_rank_state();
  /// Adds the sums of a rank_state() to this rank's sums.
  void merge_rank_state(const nlohmann::json& state);

 private:
  Summary means_;                     // of this rank's samples
  Metrics reported_;                  // equal on all ranks
  std::int64_t samples_ = 0;          // number of this rank's samples
  double training_s_ = 0;             // training time without extensions
  std::int64_t first_iteration_ = 0;  // of this observation in this process
  std::uint64_t first_bytes_ = 0;
  std::int64_t earlier_steps_ = 0;  // of this observation before a resume
  std::uint64_t earlier_bytes_ = 0;
};

}  // namespace mn

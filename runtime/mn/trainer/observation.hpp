/// What a Trainer has observed since its last report: losses, metrics, samples, time and traffic.
#pragma once

#include <cstdint>
#include <string>

#include <ATen/core/Tensor.h>
#include <nlohmann/json_fwd.hpp>

#include <mn/trainer/summary.hpp>

namespace mn {

class Observation {
 public:
  /// Where this process begins: iterations, and bytes that this rank has passed to collectives.
  void begin(std::int64_t iteration, std::uint64_t bytes_sent);

  /// One minibatch's mean loss.
  void add_loss(const at::Tensor& loss, double weight) { means_.add("main/loss", loss, weight); }
  /// One step's metrics, which become "main/NAME".
  void add_metrics(const Summary& metrics) { means_.merge(metrics, "main/"); }
  void add_samples(std::int64_t samples) noexcept { samples_ += samples; }
  /// Time that counts as training.
  void add_time(double seconds) noexcept { training_s_ += seconds; }
  /// A value that is the same on all ranks; the latest counts.
  void report(const std::string& name, double value) { reported_[name] = value; }

  /// Waits for the losses and metrics that are still on a GPU.
  void read() { means_.read(); }

  /// Collective: returns the metrics and clears them.
  [[nodiscard]] Metrics take(Communicator& comm, std::int64_t iteration, std::uint64_t bytes_sent);

  /// What it has values of, a list of texts.
  [[nodiscard]] nlohmann::json names() const;

  /// Adds what is the same on all ranks to a checkpoint, and this rank's bytes.
  void save(nlohmann::json& about, std::int64_t iteration, std::uint64_t bytes_sent) const;
  void load(const nlohmann::json& about);
  /// What this rank holds, sums over its samples.
  [[nodiscard]] nlohmann::json rank_state() const;
  /// As if this rank had observed nothing.
  void clear_rank_state();
  /// Adds the sums of a rank_state().
  void merge_rank_state(const nlohmann::json& state);

 private:
  Summary means_;             // this rank's
  Metrics reported_;          // all ranks'
  std::int64_t samples_ = 0;  // this rank's
  double training_s_ = 0;     // without extensions
  std::int64_t first_iteration_ = 0;
  std::uint64_t first_bytes_ = 0;
  std::int64_t earlier_steps_ = 0;  // before a resume
  std::uint64_t earlier_bytes_ = 0;
};

}  // namespace mn

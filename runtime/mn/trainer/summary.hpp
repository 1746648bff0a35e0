/// Named values averaged with weights, first on one rank, then over all ranks: what logs and evaluators report.
#pragma once

#include <map>
#include <string>

#include <nlohmann/json_fwd.hpp>

namespace mn {

class Communicator;

/// Name → mean, e.g. "main/loss" → 0.31.
using Metrics = std::map<std::string, double>;

/// Weighted sums by name.
class Summary {
 public:
  /// Adds a mean over `weight` samples; weight 0 changes nothing.
  void add(const std::string& name, double value, double weight = 1);
  /// Adds the sums of `other`, with `prefix` before their names.
  void merge(const Summary& other, const std::string& prefix = "");
  /// The weighted mean of each name.
  [[nodiscard]] Metrics mean() const;
  /// True if there is no name.
  [[nodiscard]] bool empty() const noexcept { return sums_.empty(); }
  /// Collective: the means over all ranks' samples, the same on every rank; a name may be missing on some ranks.
  [[nodiscard]] Metrics mean_over_ranks(Communicator& comm) const;
  /// The sums, for a checkpoint.
  [[nodiscard]] nlohmann::json state() const;
  /// Replaces the sums by those of a state().
  void load_state(const nlohmann::json& state);

 private:
  struct Sum {
    double weighted = 0;
    double weight = 0;
  };
  std::map<std::string, Sum> sums_;
};

}  // namespace mn

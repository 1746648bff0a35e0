/// Named values averaged with weights, first on one rank, then over all: what logs and evaluators report.
#pragma once

#include <map>
#include <string>

#include <mn/comm/communicator.hpp>

namespace mn {

/// Name → mean, e.g. "main/loss" → 0.31.
using Metrics = std::map<std::string, double>;

class Summary {
 public:
  /// `value` is a mean over `weight` samples; weight 0 changes nothing.
  void add(const std::string& name, double value, double weight = 1);
  void merge(const Summary& other, const std::string& prefix = "");
  [[nodiscard]] Metrics mean() const;
  [[nodiscard]] bool empty() const noexcept { return sums_.empty(); }
  /// Collective: the means over all ranks' samples, equal on all; a name may be missing on some ranks.
  [[nodiscard]] Metrics mean_over_ranks(Communicator& comm) const;
  [[nodiscard]] nlohmann::json state() const;
  void load_state(const nlohmann::json& state);

 private:
  struct Sum {
    double weighted = 0;
    double weight = 0;
  };
  std::map<std::string, Sum> sums_;
};

}  // namespace mn

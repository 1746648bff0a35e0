/// Named values averaged with weights, first on one rank, then over all ranks: what logs and evaluators report.
#pragma once

#include <map>
#include <string>
#include <vector>

#include <ATen/core/Tensor.h>
#include <nlohmann/json_fwd.hpp>

namespace mn {

class Communicator;

/// Name → mean, e.g. "main/loss" → 0.31.
using Metrics = std::map<std::string, double>;

/// Weighted sums by name. Values on a GPU stay there, at most 1000 of them, until somebody asks for a mean or a state:
/// reading one in each step would make the host wait for the step.
class Summary {
 public:
  /// Adds a mean over `weight` samples; weight 0 changes nothing.
  void add(const std::string& name, double value, double weight = 1);
  /// The same for a tensor of one element. Throws ArgumentError for any other.
  void add(const std::string& name, const at::Tensor& value, double weight = 1);
  /// The same where the weight is such a tensor too: a count of what the minibatch has of something.
  void add(const std::string& name, const at::Tensor& value, const at::Tensor& weight);
  /// Waits for values that are still on a GPU.
  void read();
  /// The same with values on a GPU of its own.
  [[nodiscard]] Summary copied() const;
  /// Adds the sums of `other`, with `prefix` before their names.
  void merge(const Summary& other, const std::string& prefix = "");
  /// The weighted mean of each name.
  [[nodiscard]] Metrics mean() const;
  /// True if there is no name.
  [[nodiscard]] bool empty() const noexcept { return sums_.empty() && on_device_.empty(); }
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
  /// A value that has not been read.
  struct Value {
    std::string name;
    at::Tensor value;
    at::Tensor weight_factor;  // undefined: 1
    double weight = 1;
  };
  void add_on_device(Value value);
  [[nodiscard]] std::map<std::string, Sum> sums() const;

  std::map<std::string, Sum> sums_;
  std::vector<Value> on_device_;
};

}  // namespace mn

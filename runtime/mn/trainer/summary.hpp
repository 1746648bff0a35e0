/// Weighted means of named values, on one rank and over all ranks: the numbers of logs and evaluators.
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

/// Weighted sums by name. Up to 1000 values stay on the GPU until a mean or a state is asked for, because reading a
/// value in each step would make the host wait for the step.
class Summary {
 public:
  /// Adds a mean over `weight` samples. A weight of 0 changes nothing.
  void add(const std::string& name, double value, double weight = 1);
  /// Adds the value of a tensor of one element. Throws ArgumentError for larger tensors.
  void add(const std::string& name, const at::Tensor& value, double weight = 1);
  /// Adds a value with a weight in a tensor of one element, such as the minibatch's number of labeled pixels.
  void add(const std::string& name, const at::Tensor& value, const at::Tensor& weight);
  /// Waits for values on a GPU, and reads them.
  void read();
  /// A copy with its own tensors on the GPU.
  [[nodiscard]] Summary copied() const;
  /// Adds the sums of `other`, with `prefix` before their names.
  void merge(const Summary& other, const std::string& prefix = "");
  /// The weighted mean of each name.
  [[nodiscard]] Metrics mean() const;
  /// True if there is no name.
  [[nodiscard]] bool empty() const noexcept { return sums_.empty() && on_device_.empty(); }
  /// Collective: the means over all ranks' samples. A name may be missing on some ranks.
  [[nodiscard]] Metrics mean_over_ranks(Communicator& comm) const;
  /// The sums, for a checkpoint.
  [[nodiscard]] nlohmann::json state() const;
  /// Replaces the sums by the sums in a state().
  void load_state(const nlohmann::json& state);

 private:
  struct Sum {
    double weighted = 0;
    double weight = 0;
  };
  /// A value on a GPU that has not been read.
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

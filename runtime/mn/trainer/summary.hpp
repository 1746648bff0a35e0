/// Means, sums, minima and maxima of named values, on one rank and over all ranks. Logs and evaluators use them.
#pragma once

#include <map>
#include <string>
#include <vector>

#include <ATen/core/Tensor.h>
#include <nlohmann/json_fwd.hpp>

namespace mn {

class Communicator;

/// Values by name, for instance "main/loss" → 0.31.
using Metrics = std::map<std::string, double>;

/// Collects weighted means, sums, minima and maxima by name. Each name has one of these four kinds; a call that adds a
/// value of another kind under the same name throws ArgumentError. Up to 1000 values stay on the GPU until mean() or
/// state() needs them, because if each step read its values, the host would wait for each step.
///
///   report.add("error", errors.mean(), samples);      // the mean over the samples of all ranks
///   report.add_sum("boxes", boxes.size(0));           // their number on all ranks, since the last report
///   report.add_max("longest", lengths.max());
class Summary {
 public:
  /// Adds `value`, a mean over `weight` samples, to the weighted mean `name`. A weight of 0 changes nothing.
  void add(const std::string& name, double value, double weight = 1);
  /// Like add() above, for the value of a tensor of one element. Throws ArgumentError if the tensor has more elements.
  void add(const std::string& name, const at::Tensor& value, double weight = 1);
  /// Like add() above, with the value and its weight in tensors of one element. An example is a minibatch's mean with
  /// the number of its labeled pixels.
  void add(const std::string& name, const at::Tensor& value, const at::Tensor& weight);
  /// Adds `value` to the sum `name`. The log shows the sum over all ranks since the log's last entry. An evaluator
  /// returns the sum over all ranks and a whole epoch.
  void add_sum(const std::string& name, double value) { combine(name, {Kind::kSum, value}); }
  /// Adds the value of a tensor of one element to the sum `name`.
  void add_sum(const std::string& name, const at::Tensor& value) { add_tensor(Kind::kSum, name, value); }
  /// Keeps the least of all values added under `name`. If one of these values is NaN, the result is NaN.
  void add_min(const std::string& name, double value) { combine(name, {Kind::kMin, value}); }
  /// Like add_min() above, for the value of a tensor of one element.
  void add_min(const std::string& name, const at::Tensor& value) { add_tensor(Kind::kMin, name, value); }
  /// Keeps the greatest of all values added under `name`. If one of these values is NaN, the result is NaN.
  void add_max(const std::string& name, double value) { combine(name, {Kind::kMax, value}); }
  /// Like add_max() above, for the value of a tensor of one element.
  void add_max(const std::string& name, const at::Tensor& value) { add_tensor(Kind::kMax, name, value); }
  /// Reads all values that are still on a GPU. Waits until the GPU has computed them.
  void read();
  /// Returns a copy of this object. Values that are still on a GPU are copied on the GPU, so that the copy shares no
  /// memory with this object.
  [[nodiscard]] Summary copied() const;
  /// Adds all values of `other` to this object, with `prefix` before each name.
  void merge(const Summary& other, const std::string& prefix = "");
  /// Returns a number for each name: the weighted mean, the sum, the minimum or the maximum.
  [[nodiscard]] Metrics mean() const;
  /// True if there is no value under any name.
  [[nodiscard]] bool empty() const noexcept { return entries_.empty() && on_device_.empty(); }
  /// Collective: returns what mean() would return for the values of all ranks together. A name may have values on some
  /// ranks only. Throws the same ArgumentError on every rank if a name has different kinds on different ranks.
  [[nodiscard]] Metrics mean_over_ranks(Communicator& comm) const;
  /// Returns all values, for a checkpoint.
  [[nodiscard]] nlohmann::json state() const;
  /// Replaces all values by the values in `state`, a result of state().
  void load_state(const nlohmann::json& state);

 private:
  enum class Kind { kMean, kSum, kMin, kMax };
  struct Entry {
    Kind kind = Kind::kMean;
    double value = 0;   // if a mean: the sum of weight × value
    double weight = 0;  // if a mean: the sum of the weights
  };
  /// A value that is still on a GPU, because nothing has read it yet.
  struct Value {
    Kind kind = Kind::kMean;
    std::string name;
    at::Tensor value;
    at::Tensor weight_factor;  // undefined: the factor is 1
    double weight = 1;
  };
  void combine(const std::string& name, const Entry& entry);
  void add_tensor(Kind kind, const std::string& name, const at::Tensor& value);
  void add_on_device(Value value);
  [[nodiscard]] std::map<std::string, Entry> entries() const;

  std::map<std::string, Entry> entries_;
  std::vector<Value> on_device_;
};

}  // namespace mn

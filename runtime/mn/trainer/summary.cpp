#include <mn/trainer/summary.hpp>

#include <cstddef>
#include <limits>
#include <utility>

#include <ATen/ops/stack.h>

#include <mn/comm/communicator.hpp>
#include <mn/core/error.hpp>
#include <mn/core/json.hpp>

namespace mn {
namespace {

constexpr std::size_t kMaxOnDevice = 1000;  // each value is a small allocation

/// Returns the tensor without its autograd graph, because the graph would keep the step's activations in memory.
at::Tensor single(const std::string& name, const at::Tensor& tensor) {
  if (tensor.defined() && tensor.numel() == 1) return tensor.detach().reshape({});
  throw ArgumentError("metric \"" + name + "\" must be a number or a tensor of one element");
}

/// Returns the tensors' numbers. Makes one copy to the host, and waits once, for each device and dtype.
std::vector<double> on_host(const std::vector<at::Tensor>& tensors) {
  std::map<std::pair<std::string, at::ScalarType>, std::vector<std::size_t>> alike;
  for (std::size_t i = 0; i < tensors.size(); ++i) {
    alike[{tensors[i].device().str(), tensors[i].scalar_type()}].push_back(i);
  }
  std::vector<double> numbers(tensors.size());
  for (const auto& [kind, indices] : alike) {
    std::vector<at::Tensor> parts;
    for (const std::size_t i : indices) parts.push_back(tensors[i]);
    const at::Tensor values = at::stack(parts).cpu().to(at::kDouble);
    for (std::size_t k = 0; k < indices.size(); ++k) numbers[indices[k]] = values.const_data_ptr<double>()[k];
  }
  return numbers;
}

}  // namespace

void Summary::add(const std::string& name, double value, double weight) {
  if (weight == 0) return;
  Sum& sum = sums_[name];
  sum.weighted += value * weight;
  sum.weight += weight;
}

void Summary::add(const std::string& name, const at::Tensor& value, double weight) {
  const at::Tensor one = single(name, value);
  if (one.is_cpu()) return add(name, one.item<double>(), weight);
  if (weight != 0) add_on_device({.name = name, .value = one, .weight_factor = {}, .weight = weight});
}

void Summary::add(const std::string& name, const at::Tensor& value, const at::Tensor& weight) {
  const at::Tensor factor = single(name, weight);
  if (factor.is_cpu()) return add(name, value, factor.item<double>());
  add_on_device({.name = name, .value = single(name, value), .weight_factor = factor});
}

void Summary::add_on_device(Value value) {
  on_device_.push_back(std::move(value));
  if (on_device_.size() >= kMaxOnDevice) read();
}

void Summary::read() {
  sums_ = sums();
  on_device_.clear();
}

Summary Summary::copied() const {
  Summary copy = *this;
  for (Value& each : copy.on_device_) {
    each.value = each.value.clone();
    if (each.weight_factor.defined()) each.weight_factor = each.weight_factor.clone();
  }
  return copy;
}

std::map<std::string, Summary::Sum> Summary::sums() const {
  std::vector<at::Tensor> tensors;
  for (const Value& each : on_device_) {
    tensors.push_back(each.value);
    if (each.weight_factor.defined()) tensors.push_back(each.weight_factor);
  }
  const std::vector<double> numbers = on_host(tensors);
  Summary all;
  all.sums_ = sums_;
  auto next = numbers.begin();
  for (const Value& each : on_device_) {
    const double value = *next++;
    all.add(each.name, value, each.weight_factor.defined() ? each.weight * *next++ : each.weight);
  }
  return all.sums_;
}

void Summary::merge(const Summary& other, const std::string& prefix) {
  for (const auto& [name, theirs] : other.sums_) {
    Sum& sum = sums_[prefix + name];
    sum.weighted += theirs.weighted;
    sum.weight += theirs.weight;
  }
  for (Value value : other.on_device_) {
    value.name = prefix + value.name;
    add_on_device(std::move(value));
  }
}

Metrics Summary::mean() const {
  Metrics means;
  for (const auto& [name, sum] : sums()) means[name] = sum.weighted / sum.weight;
  return means;
}

Metrics Summary::mean_over_ranks(Communicator& comm) const {
  Summary all;
  for (const auto& theirs : comm.allgather_obj(state())) {
    Summary one;
    one.load_state(theirs);
    all.merge(one);
  }
  return all.mean();
}

nlohmann::json Summary::state() const {
  nlohmann::json state = nlohmann::json::object();
  for (const auto& [name, sum] : sums()) state[name] = {sum.weighted, sum.weight};
  return state;
}

void Summary::load_state(const nlohmann::json& state) {
  sums_.clear();
  on_device_.clear();
  for (const auto& [name, sum] : state.items()) {
    // A checkpoint's JSON text has null where a sum is not finite.
    const double weighted = sum.at(0).is_null() ? std::numeric_limits<double>::quiet_NaN() : sum.at(0).get<double>();
    sums_[name] = {weighted, sum.at(1).get<double>()};
  }
}

}  // namespace mn

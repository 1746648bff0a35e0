#include <mn/trainer/summary.hpp>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <limits>
#include <string_view>
#include <utility>

#include <ATen/ops/stack.h>

#include <mn/comm/communicator.hpp>
#include <mn/core/error.hpp>
#include <mn/core/json.hpp>

namespace mn {
namespace {

constexpr std::size_t kMaxOnDevice = 1000;  // a limit, because each value is a small allocation
// Names of the kinds, for errors and for state(). A mean has its weight in place of the name there.
constexpr std::array<std::string_view, 4> kKinds = {"mean", "sum", "minimum", "maximum"};

/// Without the autograd graph, which would keep the step's activations in memory.
at::Tensor single(const std::string& name, const at::Tensor& tensor) {
  if (tensor.defined() && tensor.numel() == 1) return tensor.detach().reshape({});
  throw ArgumentError("metric \"" + name + "\" must be a number or a tensor of one element");
}

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

void Summary::combine(const std::string& name, const Entry& entry) {
  const auto [found, is_new] = entries_.try_emplace(name, entry);
  if (is_new) return;
  Entry& all = found->second;
  if (all.kind != entry.kind) {
    const auto name_of = [](Kind kind) { return std::string(kKinds.at(static_cast<std::size_t>(kind))); };
    throw ArgumentError("metric \"" + name + "\" is added as a " + name_of(all.kind) + " and as a " +
                        name_of(entry.kind) + ": give each a name of its own");
  }
  const bool sums = all.kind == Kind::kMean || all.kind == Kind::kSum;
  const bool replaces = all.kind == Kind::kMin ? entry.value < all.value : entry.value > all.value;
  if (sums) {
    all.value += entry.value;
    all.weight += entry.weight;
  } else if (!std::isnan(all.value) && (replaces || std::isnan(entry.value))) {
    all.value = entry.value;
  }
}

void Summary::add(const std::string& name, double value, double weight) {
  if (weight != 0) combine(name, {Kind::kMean, value * weight, weight});
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

void Summary::add_tensor(Kind kind, const std::string& name, const at::Tensor& value) {
  const at::Tensor one = single(name, value);
  if (one.is_cpu()) return combine(name, {kind, one.item<double>()});
  add_on_device({.kind = kind, .name = name, .value = one, .weight_factor = {}});
}

void Summary::add_on_device(Value value) {
  on_device_.push_back(std::move(value));
  if (on_device_.size() >= kMaxOnDevice) read();
}

void Summary::read() {
  entries_ = entries();
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

std::map<std::string, Summary::Entry> Summary::entries() const {
  std::vector<at::Tensor> tensors;
  for (const Value& each : on_device_) {
    tensors.push_back(each.value);
    if (each.weight_factor.defined()) tensors.push_back(each.weight_factor);
  }
  const std::vector<double> numbers = on_host(tensors);
  Summary all;
  all.entries_ = entries_;
  auto next = numbers.begin();
  for (const Value& each : on_device_) {
    const double value = *next++;
    if (each.kind == Kind::kMean) {
      all.add(each.name, value, each.weight_factor.defined() ? each.weight * *next++ : each.weight);
    } else {
      all.combine(each.name, {each.kind, value});
    }
  }
  return all.entries_;
}

void Summary::merge(const Summary& other, const std::string& prefix) {
  for (const auto& [name, theirs] : other.entries_) combine(prefix + name, theirs);
  for (Value value : other.on_device_) {
    value.name = prefix + value.name;
    add_on_device(std::move(value));
  }
}

Metrics Summary::mean() const {
  Metrics values;
  for (const auto& [name, entry] : entries()) {
    values[name] = entry.kind == Kind::kMean ? entry.value / entry.weight : entry.value;
  }
  return values;
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
  for (const auto& [name, entry] : entries()) {
    state[name] = {entry.value, entry.weight};
    if (entry.kind != Kind::kMean) state[name][1] = kKinds.at(static_cast<std::size_t>(entry.kind));
  }
  return state;
}

void Summary::load_state(const nlohmann::json& state) {
  entries_.clear();
  on_device_.clear();
  for (const auto& [name, saved] : state.items()) {
    // JSON has no NaN and no infinity, so a checkpoint has null for both. Null is loaded as NaN.
    const auto& number = saved.at(0);
    Entry entry{Kind::kMean, number.is_null() ? std::numeric_limits<double>::quiet_NaN() : number.get<double>()};
    if (saved.at(1).is_string()) {
      const auto kind = std::ranges::find(kKinds, saved.at(1).get<std::string>());
      entry.kind = static_cast<Kind>(kind - kKinds.begin());
    } else {
      entry.weight = saved.at(1).get<double>();
    }
    entries_[name] = entry;
  }
}

}  // namespace mn

#include <mn/trainer/parameter_set.hpp>

#include <algorithm>
#include <functional>
#include <unordered_set>

#include <torch/optim/adagrad.h>

#include <mn/comm/create_communicator.hpp>
#include <mn/core/error.hpp>
#include <mn/core/json.hpp>
#include <mn/sharding/pieces.hpp>
#include <mn/tensor/tensor.hpp>

namespace mn {
namespace {

bool needs_gradient(const at::Tensor& parameter) { return parameter.requires_grad(); }

/// Replaces the optimizer's state of a parameter by the state of a piece. Adagrad's constructor makes a state.
void cut_state(torch::optim::Optimizer& optimizer, const at::Tensor& whole, const at::Tensor& piece) {
  auto& states = optimizer.state();
  const auto found = states.find(whole.unsafeGetTensorImpl());
  if (found == states.end()) return;
  auto* const adagrad = dynamic_cast<torch::optim::AdagradParamState*>(found->second.get());
  if (adagrad == nullptr) {
    throw UsageError(
        "an optimizer that has made steps cannot be sharded (--shard): give a new one to the multi-node optimizer");
  }
  auto own = std::make_unique<torch::optim::AdagradParamState>(*adagrad);
  own->sum(adagrad->sum().flatten().narrow(0, find_piece(piece)->begin, piece.numel()).clone());
  states.erase(found);
  states[piece.unsafeGetTensorImpl()] = std::move(own);
}

}  // namespace

std::vector<at::Tensor> ParameterSet::listed() const {
  std::vector<at::Tensor> all;
  for (const auto& group : optimizer_.param_groups()) {
    for (const at::Tensor& parameter : group.params()) {
      const auto whole = wholes_.find(parameter.unsafeGetTensorImpl());
      all.push_back(whole == wholes_.end() ? parameter : whole->second);
    }
  }
  return all;
}

void ParameterSet::replace(const at::Tensor& whole, const at::Tensor& piece) {
  wholes_[piece.unsafeGetTensorImpl()] = whole;
  cut_state(optimizer_, whole, piece);
  for (auto& group : optimizer_.param_groups()) {
    for (at::Tensor& parameter : group.params()) {
      if (parameter.is_same(whole)) parameter = piece;
    }
  }
}

void ParameterSet::remove_repeats() {
  std::unordered_set<const c10::TensorImpl*> seen;
  for (auto& group : optimizer_.param_groups()) {
    std::erase_if(group.params(), [&](const at::Tensor& p) { return !seen.insert(p.unsafeGetTensorImpl()).second; });
  }
}

bool ParameterSet::is_current() const {
  return are_same(listed(), all_) && std::ranges::none_of(frozen_, needs_gradient) &&
         std::ranges::all_of(trained_, needs_gradient);
}

void ParameterSet::sort(const std::vector<at::Tensor>& reduced) {
  trained_ = reduced;
  std::erase_if(trained_, std::not_fn(needs_gradient));
  frozen_ = differentiable(all_);
  std::erase_if(frozen_, needs_gradient);
}

bool are_same(const std::vector<at::Tensor>& some, const std::vector<at::Tensor>& others) {
  return std::ranges::equal(some, others, [](const at::Tensor& a, const at::Tensor& b) { return a.is_same(b); });
}

std::optional<std::size_t> index_in(const std::vector<at::Tensor>& all, const at::Tensor& tensor) {
  const auto found = std::ranges::find_if(all, [&](const at::Tensor& each) { return each.is_same(tensor); });
  if (found == all.end()) return std::nullopt;
  return static_cast<std::size_t>(found - all.begin());
}

void prove_same_set(const std::vector<at::Tensor>& parameters, const std::string& change, Communicator& comm) {
  nlohmann::json flags = {{"the last change", change}};
  for (std::size_t i = 0; i < parameters.size(); ++i) {
    flags["requires_grad of " + tensor_name(parameters[i], i)] = parameters[i].requires_grad();
  }
  prove_equal(flags, "the parameters that they train", comm);
}

NamedTensors renumbered(const NamedTensors& state, const std::vector<at::Tensor>& from,
                        const std::vector<at::Tensor>& to) {
  NamedTensors result;
  for (const auto& [name, tensor] : state) {
    const std::size_t dot = name.rfind('.'), number = std::stoul(name.substr(dot + 1));
    const auto i = number < from.size() ? index_in(to, from[number]) : std::nullopt;
    if (i) result.emplace_back(name.substr(0, dot + 1) + std::to_string(*i), tensor);
  }
  return result;
}

}  // namespace mn

#include <mn/checkpoint/optimizer_state.hpp>

#include <algorithm>
#include <cstring>
#include <memory>
#include <set>
#include <type_traits>
#include <utility>

#include <ATen/ops/empty.h>
#include <ATen/ops/empty_like.h>
#include <ATen/ops/scalar_tensor.h>
#include <torch/optim/adagrad.h>
#include <torch/optim/adam.h>
#include <torch/optim/adamw.h>
#include <torch/optim/rmsprop.h>
#include <torch/optim/sgd.h>

#include <mn/checkpoint/optimizer_archive.hpp>
#include <mn/checkpoint/optimizer_settings.hpp>
#include <mn/core/error.hpp>
#include <mn/core/json.hpp>
#include <mn/optimizers/master_weights.hpp>
#include <mn/sharding/pieces.hpp>

namespace mn {
namespace {

using nlohmann::json;
using torch::optim::Optimizer;
using torch::optim::OptimizerParamState;

constexpr const char* kMaster = "master";

/// Returns true if `state` is of type State. Then also calls visit(name, member) for each tensor and for the count of
/// steps.
template <class State, class Visit>
bool visit_state_as(OptimizerParamState& state, const Visit& visit) {
  auto* const own = dynamic_cast<State*>(&state);
  if (own == nullptr) return false;
  if constexpr (requires { own->exp_avg(); }) visit("exp_avg", own->exp_avg());
  if constexpr (requires { own->exp_avg_sq(); }) visit("exp_avg_sq", own->exp_avg_sq());
  if constexpr (requires { own->max_exp_avg_sq(); }) visit("max_exp_avg_sq", own->max_exp_avg_sq());
  if constexpr (requires { own->square_avg(); }) visit("square_avg", own->square_avg());
  if constexpr (requires { own->momentum_buffer(); }) visit("momentum_buffer", own->momentum_buffer());
  if constexpr (requires { own->grad_avg(); }) visit("grad_avg", own->grad_avg());
  if constexpr (requires { own->sum(); }) visit("sum", own->sum());
  if constexpr (requires { own->step(); }) visit("step", own->step());
  return true;
}

template <class Visit>
void visit_state(OptimizerParamState& state, const Visit& visit) {
  static_cast<void>(visit_state_as<torch::optim::SGDParamState>(state, visit) ||
                    visit_state_as<torch::optim::AdamParamState>(state, visit) ||
                    visit_state_as<torch::optim::AdamWParamState>(state, visit) ||
                    visit_state_as<torch::optim::RMSpropParamState>(state, visit) ||
                    visit_state_as<torch::optim::AdagradParamState>(state, visit));
}

/// Makes the state of one parameter. Returns null if only libtorch's archive can hold the state of this kind of
/// optimizer.
std::unique_ptr<OptimizerParamState> make_state(const Optimizer& optimizer) {
  const std::string kind = optimizer_kind(optimizer);
  if (kind == "SGD" || kind == "LARS") return std::make_unique<torch::optim::SGDParamState>();
  if (kind == "Adam") return std::make_unique<torch::optim::AdamParamState>();
  if (kind == "AdamW" || kind == "LAMB") return std::make_unique<torch::optim::AdamWParamState>();
  if (kind == "RMSprop") return std::make_unique<torch::optim::RMSpropParamState>();
  if (kind == "Adagrad") return std::make_unique<torch::optim::AdagradParamState>();
  return nullptr;
}

/// Calls visit(name, parameter) for each parameter of the optimizer.
template <class Visit>
void for_each_parameter(Optimizer& optimizer, const std::vector<std::vector<std::string>>& names, const Visit& visit) {
  auto& groups = optimizer.param_groups();
  for (std::size_t g = 0; g < groups.size(); ++g) {
    for (std::size_t i = 0; i < groups[g].params().size(); ++i) visit(names[g][i], groups[g].params()[i]);
  }
}

at::Tensor archive_tensor(const Optimizer& optimizer) {
  const std::string bytes = optimizer_bytes(optimizer);
  at::Tensor tensor = at::empty({static_cast<std::int64_t>(bytes.size())}, at::kByte);
  std::memcpy(tensor.mutable_data_ptr(), bytes.data(), bytes.size());
  return tensor;
}

/// Makes a tensor of this form. If the shapes are equal, the tensor gets the strides of the parameter, because updates
/// are fastest if both tensors lie in memory in the same way.
at::Tensor room_for(const TensorForm& form, const at::Tensor& parameter) {
  const auto options = parameter.options().dtype(form.dtype).requires_grad(false);
  if (parameter.sizes() == at::IntArrayRef(form.shape)) return at::empty_like(parameter.detach(), options);
  return at::empty(form.shape, options);
}

}  // namespace

std::vector<std::vector<std::string>> parameter_names(Optimizer& optimizer, const torch::nn::Module& module) {
  // A parameter that is not in the module is named by its number in the order of the groups.
  std::map<const c10::TensorImpl*, std::string> known;
  for (const auto& [name, parameter] : named_parameters(module)) {
    known.emplace(parameter.unsafeGetTensorImpl(), name);
    if (const auto piece = find_piece(parameter)) known.emplace(piece->elements.unsafeGetTensorImpl(), name);
  }
  std::vector<std::vector<std::string>> names;
  std::size_t unknown = 0;
  for (const auto& group : optimizer.param_groups()) {
    names.emplace_back();
    for (const at::Tensor& parameter : group.params()) {
      const auto found = known.find(parameter.unsafeGetTensorImpl());
      names.back().push_back(found != known.end() ? found->second : "#" + std::to_string(unknown++));
    }
  }
  return names;
}

NamedTensors optimizer_tensors(Optimizer& optimizer, const torch::nn::Module& module) {
  if (!make_state(optimizer)) return {{kArchive, archive_tensor(optimizer)}};
  NamedTensors tensors;
  const auto* const masters = dynamic_cast<const MasterWeights*>(&optimizer);
  for_each_parameter(optimizer, parameter_names(optimizer, module),
                     [&](const std::string& name, const at::Tensor& parameter) {
                       const at::Tensor master = masters != nullptr ? masters->master(parameter) : at::Tensor();
                       if (master.defined()) tensors.emplace_back(name + "/" + kMaster, master);
                       const auto found = optimizer.state().find(parameter.unsafeGetTensorImpl());
                       if (found == optimizer.state().end() || !found->second) return;
                       visit_state(*found->second, [&](const char* field, auto& member) {
                         if constexpr (std::is_integral_v<std::decay_t<decltype(member)>>) {
                           tensors.emplace_back(name + "/" + field, at::scalar_tensor(member, at::kLong));
                         } else if (member.defined()) {
                           // Checkpoints hold no sparse tensors, but the momentum of sparse gradients is sparse.
                           tensors.emplace_back(name + "/" + field, member.is_sparse() ? member.to_dense() : member);
                         }
                       });
                     });
  return tensors;
}

json optimizer_groups(Optimizer& optimizer, const torch::nn::Module& module) {
  json groups = json::array();
  const json settings = optimizer_settings(optimizer);
  const auto names = parameter_names(optimizer, module);
  for (std::size_t g = 0; g < names.size(); ++g) {
    groups.push_back({{"parameters", names[g]}, {"settings", settings.at(g)}});
  }
  return groups;
}

std::uint64_t optimizer_state_bytes(Optimizer& optimizer) {
  const std::string kind = optimizer_kind(optimizer);
  const json settings = optimizer_settings(optimizer);
  const auto* const masters = dynamic_cast<const MasterWeights*>(&optimizer);
  std::uint64_t bytes = 0;
  for (std::size_t g = 0; g < settings.size(); ++g) {
    const auto is_on = [&](const char* setting) { return settings[g].value(setting, 0.0) != 0 ? 1 : 0; };
    std::uint64_t copies = 0;  // number of state tensors for each parameter
    if (kind == "Adam" || kind == "AdamW" || kind == "LAMB") copies = 2 + is_on("amsgrad");
    if (kind == "SGD" || kind == "LARS") copies = is_on("momentum");
    if (kind == "RMSprop") copies = 1 + is_on("momentum") + is_on("centered");
    if (kind == "Adagrad") copies = 1;
    for (const at::Tensor& parameter : optimizer.param_groups()[g].params()) {
      if (!parameter.requires_grad()) continue;
      const bool has_master = masters != nullptr && masters->has_master(parameter);
      bytes += has_master ? (copies + 1) * parameter.numel() * sizeof(float) : copies * parameter.nbytes();
    }
  }
  return bytes;
}

OptimizerLoad::OptimizerLoad(Optimizer& optimizer, const torch::nn::Module& module, const TensorForms& saved,
                             const json& groups)
    : optimizer_(optimizer), names_(parameter_names(optimizer, module)), groups_(groups) {
  if (const auto archive = saved.find(kArchive); archive != saved.end()) {
    check_order(groups);
    tensors_.emplace_back(kArchive, at::empty(archive->second.shape, at::kByte));
    return;
  }
  // The names are checked first, because a mismatch must throw before the optimizer changes.
  check_names(groups);
  const auto state = make_state(optimizer);
  if (!state) throw DataError("the checkpoint has no archive of this optimizer");
  for_each_parameter(optimizer, names_, [&](const std::string& name, const at::Tensor& parameter) {
    visit_state(*state, [&](const char* field, const auto& member) {
      const auto found = saved.find(name + "/" + field);
      if (found == saved.end()) return;
      constexpr bool kIsCount = std::is_integral_v<std::decay_t<decltype(member)>>;
      kIsCount ? void(tensors_.emplace_back(found->first, at::empty({}, at::kLong))) : add(*found, parameter);
    });
    const auto master = saved.find(name + "/" + kMaster);
    if (master != saved.end()) add(*master, parameter);
  });
}

void OptimizerLoad::add(const TensorForms::value_type& saved, const at::Tensor& parameter) {
  const auto& [name, form] = saved;
  const auto piece = find_piece(parameter);
  if (!piece || piece->whole.sizes() != at::IntArrayRef(form.shape)) {
    tensors_.emplace_back(name, room_for(form, parameter));
    return;
  }
  pieces_.push_back({name, form.shape, static_cast<std::uint64_t>(piece->begin),
                     at::empty(parameter.sizes(), parameter.options().dtype(form.dtype).requires_grad(false))});
}

void OptimizerLoad::check_names(const json& groups) const {
  std::set<std::string> saved;
  for (const json& group : groups) {
    for (const json& name : group.at("parameters")) saved.insert(name.get<std::string>());
  }
  for (const auto& group : names_) {
    for (const std::string& name : group) {
      if (saved.erase(name) == 0) {
        throw DataError(
            "the optimizer of this job has parameter " + name + ", which the optimizer of the checkpoint does not have",
            true);
      }
    }
  }
  if (!saved.empty()) {
    throw DataError("the optimizer of the checkpoint has parameter " + *saved.begin() +
                        ", which the optimizer of this job does not have",
                    true);
  }
}

/// Throws DataError if the order of the parameters has changed, because an archive identifies parameters by their order
/// alone.
void OptimizerLoad::check_order(const json& groups) const {
  check_names(groups);
  for (std::size_t g = 0; g < std::max(groups.size(), names_.size()); ++g) {
    const json then = g < groups.size() ? groups[g].at("parameters") : json::array();
    const json now = g < names_.size() ? json(names_[g]) : json::array();
    const auto [was, is] = std::ranges::mismatch(then, now);
    if (was == then.end() && is == now.end()) continue;
    throw DataError("the state of the optimizer " + optimizer_kind(optimizer_) +
                        " is stored by the order of its parameters, which is another now: in group " +
                        std::to_string(g) + (was == then.end() ? " nothing" : " " + was->get<std::string>()) +
                        " stood where this job has " + (is == now.end() ? "nothing" : is->get<std::string>()) +
                        "; give the optimizer its parameters in the order that they had",
                    true);
  }
}

void OptimizerLoad::finish(c10::Device device) {
  if (tensors_.size() == 1 && tensors_.front().first == kArchive) {
    const at::Tensor& archive = tensors_.front().second;
    load_optimizer(optimizer_, {static_cast<const char*>(archive.const_data_ptr()), archive.nbytes()}, device);
    return;
  }
  std::map<std::string, at::Tensor> loaded(tensors_.begin(), tensors_.end());
  for (const TensorPiece& piece : pieces_) loaded.emplace(piece.name, piece.elements);
  auto* const masters = dynamic_cast<MasterWeights*>(&optimizer_);
  for_each_parameter(optimizer_, names_, [&](const std::string& name, const at::Tensor& parameter) {
    const auto master = loaded.find(name + "/" + kMaster);
    if (masters != nullptr) masters->load_master(parameter, master != loaded.end() ? master->second : at::Tensor());
    const bool is_wide = masters != nullptr && masters->has_master(parameter);
    const at::ScalarType type = is_wide ? at::kFloat : parameter.scalar_type();
    auto state = make_state(optimizer_);
    bool any = false;
    visit_state(*state, [&](const char* field, auto& member) {
      const auto found = loaded.find(name + "/" + field);
      if (found == loaded.end()) return;
      if constexpr (std::is_integral_v<std::decay_t<decltype(member)>>) {
        member = found->second.item<std::int64_t>();
      } else {
        member = found->second.to(type);
      }
      any = true;
    });
    // A parameter that was never updated gets no state, because a state of zeros would mean something else.
    if (any) {
      optimizer_.state()[parameter.unsafeGetTensorImpl()] = std::move(state);
    } else {
      optimizer_.state().erase(parameter.unsafeGetTensorImpl());
    }
  });
  // The groups of the checkpoint may be in another order. Therefore a group is found by the name of its first
  // parameter.
  auto& groups = optimizer_.param_groups();
  for (std::size_t g = 0; g < groups.size(); ++g) {
    for (const json& saved : groups_) {
      const auto& theirs = saved.at("parameters");
      if (names_[g].empty() || std::ranges::find(theirs, json(names_[g].front())) == theirs.end()) continue;
      load_settings(groups[g], saved.at("settings"));
    }
  }
}

}  // namespace mn

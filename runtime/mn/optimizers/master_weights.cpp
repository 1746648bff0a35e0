#include <mn/optimizers/master_weights.hpp>

#include <ATen/core/grad_mode.h>
#include <ATen/ops/_foreach_copy.h>
#include <ATen/ops/empty_like.h>
#include <torch/optim/optimizer.h>

#include <mn/sharding/pieces.hpp>
#include <mn/sharding/sharded_construction.hpp>
#include <mn/tensor/modules.hpp>

namespace mn {

at::Tensor MasterWeights::master(const at::Tensor& parameter) const {
  const auto found = masters_.find(parameter.unsafeGetTensorImpl());
  return found == masters_.end() ? at::Tensor() : found->second;
}

void MasterWeights::load_master(const at::Tensor& parameter, const at::Tensor& master) {
  if (has_master(parameter)) masters_[parameter.unsafeGetTensorImpl()] = master;
}

at::Tensor MasterWeights::to_update(const at::Tensor& parameter) {
  if (!has_master(parameter)) return parameter;
  at::Tensor& master = masters_[parameter.unsafeGetTensorImpl()];
  if (!master.defined()) master = parameter.detach().to(at::kFloat);
  narrow_.push_back(parameter);
  updated_.push_back(master);
  return master;
}

void MasterWeights::widen_gradients(std::vector<at::Tensor>& gradients, const std::vector<at::Tensor>& to_update) {
  std::vector<at::Tensor> narrow, wide;
  for (std::size_t i = 0; i < gradients.size(); ++i) {
    if (gradients[i].scalar_type() == to_update[i].scalar_type()) continue;
    narrow.push_back(gradients[i]);
    gradients[i] = wide.emplace_back(at::empty_like(gradients[i], gradients[i].options().dtype(at::kFloat)));
  }
  if (!wide.empty()) at::_foreach_copy_(wide, narrow);
}

void MasterWeights::round_masters() {
  const at::NoGradGuard no_grad;
  if (!narrow_.empty()) at::_foreach_copy_(narrow_, updated_);
  narrow_.clear();
  updated_.clear();
}

at::Tensor exact_weight(torch::optim::Optimizer& optimizer, const at::Tensor& parameter) {
  const auto* const masters = dynamic_cast<const MasterWeights*>(&optimizer);
  if (masters == nullptr) return parameter;
  const at::Tensor master = masters->master(parameter);
  return master.defined() ? master : parameter;
}

void narrow_weights(const torch::nn::Module& module, at::ScalarType type) {
  for (at::Tensor& parameter : parameters_of(module)) {
    if (!parameter.is_floating_point() || parameter.dim() < 2) continue;
    if (is_in_pieces(parameter)) {
      convert_pieces(parameter, type);
    } else {
      parameter.set_data(parameter.detach().to(type));
    }
  }
}

}  // namespace mn

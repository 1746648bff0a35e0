#include <mn/trainer/global_norm.hpp>

#include <algorithm>

#include <ATen/ops/_foreach_norm.h>
#include <ATen/ops/linalg_vector_norm.h>
#include <ATen/ops/stack.h>
#include <ATen/ops/zeros.h>

#include <mn/optimizers/gradient_values.hpp>

namespace mn {
namespace {

/// Returns the L2 norm of each tensor, as a scalar on the tensor's device. The norm of a 16-bit tensor is float32,
/// because 16 bits cannot hold the squares of its elements.
std::vector<at::Tensor> norms_of(const std::vector<at::Tensor>& tensors) {
  const auto is_narrow = [](const at::Tensor& tensor) { return tensor.element_size() < 4; };
  if (std::ranges::none_of(tensors, is_narrow)) return at::_foreach_norm(tensors);
  if (std::ranges::all_of(tensors, is_narrow)) return at::_foreach_norm(tensors, 2, at::kFloat);
  std::vector<at::Tensor> norms;
  for (const at::Tensor& tensor : tensors) {
    norms.push_back(is_narrow(tensor) ? at::linalg_vector_norm(tensor, 2, {}, false, at::kFloat)
                                      : at::linalg_vector_norm(tensor));
  }
  return norms;
}

}  // namespace

std::vector<at::Tensor> gradients_of(const std::vector<at::Tensor>& parameters) {
  std::vector<at::Tensor> gradients;
  for (const auto& parameter : parameters) {
    if (parameter.grad().defined()) gradients.push_back(gradient_values(parameter));
  }
  return gradients;
}

at::Tensor global_norm(const std::vector<at::Tensor>& tensors) {
  if (tensors.empty()) return at::zeros({}, at::kDouble);
  std::vector<at::Tensor> norms;
  for (const at::Tensor& norm : norms_of(tensors)) norms.push_back(norm.to(at::kDouble));
  return at::stack(norms).norm();
}

}  // namespace mn

#include <mn/trainer/global_norm.hpp>

#include <map>

#include <ATen/ops/_foreach_norm.h>
#include <ATen/ops/hypot.h>
#include <ATen/ops/linalg_vector_norm.h>
#include <ATen/ops/stack.h>
#include <ATen/ops/zeros.h>

#include <mn/optimizers/gradient_values.hpp>
#include <mn/sharding/pieces.hpp>

namespace mn {
namespace {

at::Tensor norm_on_rank(const std::vector<at::Tensor>& tensors) {
  if (tensors.empty()) return at::zeros({}, at::kDouble);
  std::map<at::ScalarType, std::vector<at::Tensor>> by_dtype;  // libtorch's kernel takes tensors of one dtype
  for (const at::Tensor& tensor : tensors) by_dtype[tensor.scalar_type()].push_back(tensor);
  std::vector<at::Tensor> norms;
  for (const auto& [dtype, some] : by_dtype) {
    // For 16-bit tensors, computes the norm in float32, because 16 bits cannot hold the squares.
    const bool is_narrow = c10::elementSize(dtype) < 4;
    const auto each = at::_foreach_norm(some, 2, is_narrow ? std::optional(at::kFloat) : std::nullopt);
    norms.insert(norms.end(), each.begin(), each.end());
  }
  return at::linalg_vector_norm(at::stack(norms), 2, std::nullopt, /*keepdim=*/false, at::kDouble);
}

}  // namespace

std::vector<at::Tensor> gradients_of(const std::vector<at::Tensor>& parameters) {
  std::vector<at::Tensor> gradients;
  for (const auto& parameter : parameters) {
    gradients.push_back(parameter.grad().defined() ? gradient_values(parameter) : at::Tensor());
  }
  return gradients;
}

at::Tensor global_norm(const std::vector<at::Tensor>& tensors, const std::vector<at::Tensor>& parameters) {
  std::vector<at::Tensor> whole, pieces;
  at::Tensor piece;
  for (std::size_t i = 0; i < parameters.size(); ++i) {
    const bool is_piece = find_piece(parameters[i]).has_value();
    if (is_piece) piece = parameters[i];
    if (tensors[i].defined()) (is_piece ? pieces : whole).push_back(tensors[i]);
  }
  if (!piece.defined()) return norm_on_rank(whole);
  at::Tensor norm = norm_on_rank(pieces);
  make_whole_norms(norm, piece);
  return whole.empty() ? norm : at::hypot(norm, norm_on_rank(whole));
}

}  // namespace mn

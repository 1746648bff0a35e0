#include <mn/trainer/global_norm.hpp>

#include <algorithm>
#include <map>

#include <ATen/ops/_foreach_norm.h>
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
  struct Group {
    const Communicator* ranks;  // null: whole parameters
    at::Tensor parameter;
    std::vector<at::Tensor> tensors = {};
  };
  std::vector<Group> groups;
  for (std::size_t i = 0; i < parameters.size(); ++i) {
    if (!tensors[i].defined()) continue;
    const auto piece = find_piece(parameters[i]);
    const Communicator* const ranks = piece ? piece->ranks : nullptr;
    auto group = std::ranges::find(groups, ranks, &Group::ranks);
    if (group == groups.end()) group = groups.insert(group, {ranks, parameters[i]});
    group->tensors.push_back(tensors[i]);
  }
  std::vector<at::Tensor> norms;
  for (const Group& group : groups) {
    at::Tensor norm = norm_on_rank(group.tensors).view({1});
    make_whole_norms(norm, group.parameter);
    norms.push_back(norm[0]);
  }
  return norms.size() == 1 ? norms.front() : norm_on_rank(norms);
}

}  // namespace mn

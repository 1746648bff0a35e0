#include <mn/models/stochastic_depth.hpp>

#include <vector>

#include <torch/torch.h>

namespace mn::models {

double skip_probability(double last, std::int64_t i, std::int64_t blocks) {
  return blocks > 1 ? last * static_cast<double>(i) / static_cast<double>(blocks - 1) : 0;
}

torch::Tensor skip_branches(const torch::Tensor& branch, double skip) {
  if (skip == 0) return branch;
  std::vector<std::int64_t> sizes(branch.dim(), 1);
  sizes[0] = branch.size(0);
  return branch * torch::empty(sizes, branch.options()).bernoulli_(1 - skip).div_(1 - skip);
}

}  // namespace mn::models

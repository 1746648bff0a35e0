/// Computes token losses by libtorch in float64, and lists the cases that tests compare with them.
#pragma once

#include <vector>

#include <torch/torch.h>

#include <mn/kernels/token_loss.hpp>

namespace mn::testing {

/// Computes token_loss() of (R, V) logits by libtorch's own operators.
inline at::Tensor reference_loss(const at::Tensor& logits, const at::Tensor& targets, const TokenLossOptions& options) {
  namespace F = torch::nn::functional;
  const auto how = F::CrossEntropyFuncOptions()
                       .reduction(torch::kNone)
                       .ignore_index(options.ignore_index)
                       .label_smoothing(options.label_smoothing);
  const at::Tensor counts = targets.ne(options.ignore_index).to(torch::kDouble);
  at::Tensor losses = F::cross_entropy(logits, targets, how);
  if (options.z_loss != 0) losses = losses + options.z_loss * torch::logsumexp(logits, 1).square() * counts;
  const at::Tensor weights = options.weights.defined() ? options.weights.to(torch::kDouble) * counts : counts;
  losses = losses * weights;
  if (options.reduction == TokenLossReduction::kNone) return losses;
  return options.reduction == TokenLossReduction::kSum ? losses.sum() : losses.sum() / weights.sum();
}

/// Returns options for tests with R targets: each option alone, and all options together.
inline std::vector<TokenLossOptions> loss_options(std::int64_t rows) {
  const at::Tensor weights = torch::arange(rows).remainder(4) * 0.5;
  std::vector<TokenLossOptions> all = {{},
                                       {.ignore_index = 0},
                                       {.label_smoothing = 0.1},
                                       {.z_loss = 0.01},
                                       {.weights = weights},
                                       {.reduction = TokenLossReduction::kSum}};
  for (const auto reduction : {TokenLossReduction::kMean, TokenLossReduction::kSum, TokenLossReduction::kNone}) {
    all.push_back(
        {.ignore_index = 1, .label_smoothing = 0.2, .z_loss = 0.02, .weights = weights, .reduction = reduction});
  }
  return all;
}

/// Returns the largest error divided by the largest expected number; NaN if `got` has a NaN or an infinity where
/// `expected` has none, or the reverse.
inline double error_of(const at::Tensor& got, const at::Tensor& expected) {
  const at::Tensor a = got.detach().cpu().to(torch::kDouble), b = expected.detach().to(torch::kDouble);
  if (a.numel() == 0) return 0;
  if (!torch::allclose(a, b, 1e30, 1e30, /*equal_nan=*/true)) return NAN;
  const at::Tensor finite = a.isfinite().logical_and(b.isfinite());
  if (!finite.equal(b.isfinite())) return NAN;
  const at::Tensor zero = torch::zeros({}, torch::kDouble);
  const double largest = torch::where(finite, b, zero).abs().max().item<double>();
  return torch::where(finite, a - b, zero).abs().max().item<double>() / std::max(largest, 1e-30);
}

}  // namespace mn::testing

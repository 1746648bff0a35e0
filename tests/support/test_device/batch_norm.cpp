// The CPU's kernels for libtorch's operators that compute and merge moments of synchronized batch normalization, which
// only CUDA has: the test device runs them. They compute what CUDA's kernels do, also with wrong arguments, and demand
// the dtypes that CUDA's demand.
#include <optional>
#include <tuple>

#include <ATen/TensorOperators.h>
#include <ATen/core/Tensor.h>
#include <ATen/ops/zeros_like.h>
#include <torch/library.h>

namespace mn::test_device {
namespace {

using OptionalTensor = std::optional<at::Tensor>;

at::ScalarType sum_type(const at::Tensor& x) { return x.scalar_type() == at::kDouble ? at::kDouble : at::kFloat; }

/// (C, values) in float64.
at::Tensor by_rows(const at::Tensor& x) { return x.transpose(0, 1).flatten(1).to(at::kDouble); }

std::tuple<at::Tensor, at::Tensor> stats(const at::Tensor& x, double eps) {
  const at::Tensor rows = by_rows(x);
  return {rows.mean(1).to(sum_type(x)), (rows.var(1, false) + eps).rsqrt().to(sum_type(x))};
}

std::tuple<at::Tensor, at::Tensor> gather_stats(const at::Tensor& x, const at::Tensor& mean, const at::Tensor& invstd,
                                                const OptionalTensor& running_mean, const OptionalTensor& running_var,
                                                double momentum, double eps, const at::Tensor& counts) {
  const bool moves = running_mean && running_mean->defined();
  TORCH_CHECK(counts.scalar_type() == (moves ? *running_mean : x).scalar_type(), "counts are ", counts.scalar_type());
  at::Tensor average = at::zeros_like(mean[0]), squares = average;
  std::int32_t n = 0;
  for (std::int64_t j = 0; j < mean.size(0); ++j) {
    const auto count = counts[j].item<float>();
    const double factor = 1.0 / (static_cast<float>(n) + count);
    const at::Tensor within = (invstd[j].reciprocal().square() - eps) * count;
    squares = squares + within + (average - mean[j]).square() * n * count * factor;
    average = average * n * factor + mean[j] * count * factor;
    n = static_cast<std::int32_t>(static_cast<float>(n) + count);
  }
  if (moves) {
    at::Tensor(*running_mean).copy_(*running_mean * (1 - momentum) + average * momentum);
    at::Tensor(*running_var).copy_(*running_var * (1 - momentum) + squares / (n - 1) * momentum);
  }
  return {average, (squares / n + eps).rsqrt()};
}

TORCH_LIBRARY_IMPL(aten, CPU, library) {
  library.impl("batch_norm_stats", stats);
  library.impl("batch_norm_gather_stats_with_counts", gather_stats);
}

}  // namespace
}  // namespace mn::test_device

// The CPU's kernels for libtorch's operators of synchronized batch normalization, which only CUDA has: the test device
// runs them. They compute what CUDA's kernels do, also with wrong arguments, and demand the dtypes that CUDA's demand.
#include <optional>
#include <tuple>

#include <ATen/TensorOperators.h>
#include <ATen/core/Tensor.h>
#include <ATen/ops/empty_like.h>
#include <ATen/ops/ones_like.h>
#include <ATen/ops/zeros_like.h>
#include <torch/library.h>

namespace mn::test_device {
namespace {

using OptionalTensor = std::optional<at::Tensor>;

at::ScalarType sum_type(const at::Tensor& x) { return x.scalar_type() == at::kDouble ? at::kDouble : at::kFloat; }

/// (C, values) in float64.
at::Tensor by_rows(const at::Tensor& x) { return x.transpose(0, 1).flatten(1).to(at::kDouble); }

/// The inverse of by_rows(), in the dtype and memory order of x.
at::Tensor like(const at::Tensor& x, const at::Tensor& rows) {
  return at::empty_like(x).copy_(rows.view(x.transpose(0, 1).sizes()).transpose(0, 1));
}

at::Tensor column(const at::Tensor& values) { return values.to(at::kDouble).unsqueeze(1); }

void check_values(const at::Tensor& x, const OptionalTensor& values) {
  TORCH_CHECK(!values || !values->defined() || values->scalar_type() == sum_type(x), "values of a channel are ",
              values->scalar_type(), ", the minibatch ", x.scalar_type());
}

at::Tensor weight_or_ones(const OptionalTensor& weight, const at::Tensor& mean) {
  return weight && weight->defined() ? *weight : at::ones_like(mean);
}

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

at::Tensor elements(const at::Tensor& x, const OptionalTensor& weight, const OptionalTensor& bias,
                    const at::Tensor& mean, const at::Tensor& invstd, double /*eps*/) {
  check_values(x, weight), check_values(x, bias), check_values(x, mean);
  const at::Tensor rows = (by_rows(x) - column(mean)) * column(invstd) * column(weight_or_ones(weight, mean));
  return like(x, bias && bias->defined() ? rows + column(*bias) : rows);
}

std::tuple<at::Tensor, at::Tensor, at::Tensor, at::Tensor> backward_sums(const at::Tensor& dy, const at::Tensor& x,
                                                                         const at::Tensor& mean,
                                                                         const at::Tensor& invstd,
                                                                         const OptionalTensor& weight, bool input_g,
                                                                         bool weight_g, bool bias_g) {
  check_values(x, weight), check_values(x, mean);
  TORCH_CHECK(dy.scalar_type() == x.scalar_type() && dy.strides() == x.strides(), "dy is not like x");
  const at::Tensor sum = by_rows(dy).sum(1).to(mean.scalar_type());
  const at::Tensor product = (by_rows(dy) * (by_rows(x) - column(mean))).sum(1).to(mean.scalar_type());
  return {input_g ? sum : at::Tensor(), input_g ? product : at::Tensor(), weight_g ? product * invstd : at::Tensor(),
          bias_g ? sum.clone() : at::Tensor()};
}

at::Tensor backward_elements(const at::Tensor& dy, const at::Tensor& x, const at::Tensor& mean,
                             const at::Tensor& invstd, const OptionalTensor& weight, const at::Tensor& sum,
                             const at::Tensor& product, const at::Tensor& counts) {
  check_values(x, weight), check_values(x, mean);
  TORCH_CHECK(counts.scalar_type() == at::kInt, "counts are ", counts.scalar_type());
  const double count = counts.sum().item<double>();
  const at::Tensor slope = column(product) / count * column(invstd).square();
  const at::Tensor rest = by_rows(dy) - column(sum) / count - (by_rows(x) - column(mean)) * slope;
  return like(x, rest * column(invstd) * column(weight_or_ones(weight, mean)));
}

TORCH_LIBRARY_IMPL(aten, CPU, library) {
  library.impl("batch_norm_stats", stats);
  library.impl("batch_norm_gather_stats_with_counts", gather_stats);
  library.impl("batch_norm_elemt", elements);
  library.impl("batch_norm_backward_reduce", backward_sums);
  library.impl("batch_norm_backward_elemt", backward_elements);
}

}  // namespace
}  // namespace mn::test_device

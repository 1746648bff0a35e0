#include <mn/kernels/token_loss.hpp>

#include <algorithm>
#include <atomic>
#include <string>

#include <ATen/Parallel.h>
#include <ATen/core/grad_mode.h>
#include <ATen/ops/empty.h>
#include <c10/core/DeviceGuard.h>
#include <torch/csrc/autograd/custom_function.h>
#include <torch/csrc/autograd/variable.h>

#include <mn/core/classic_stream.hpp>
#include <mn/core/error.hpp>
#include <mn/kernels/operators.hpp>
#include <mn/kernels/token_loss_call.hpp>
#include <mn/kernels/token_loss_loops.hpp>

namespace mn {
namespace kernels {
namespace {

constexpr std::int64_t kElementsOfThread = std::int64_t{1} << 14;  // fewer are not worth another thread

std::int64_t rows_of_thread(std::int64_t columns) {
  return std::max<std::int64_t>(kElementsOfThread / std::max<std::int64_t>(columns, 1), 1);
}

void compute_on_host(const TokenLossCall& call) {
  weigh_rows_on_host(call);
  std::atomic<std::int64_t> wrong = -1;
  at::parallel_for(0, call.rows, rows_of_thread(call.vocabulary), [&](std::int64_t first, std::int64_t last) {
    if (const std::int64_t row = token_loss_on_host(call, first, last); row >= 0) wrong = row;
  });
  if (wrong < 0) return;
  throw ArgumentError("token_loss(): target " + std::to_string(call.targets[wrong]) + " of row " +
                      std::to_string(wrong) + " is none of " + std::to_string(call.vocabulary) +
                      " classes; rows to leave out have the target " + std::to_string(call.ignore_index));
}

}  // namespace

std::tuple<at::Tensor, at::Tensor> token_loss_operator(const at::Tensor& logits, const at::Tensor& targets,
                                                       const std::optional<at::Tensor>& weights,
                                                       std::int64_t ignore_index, double smoothing, double z_loss,
                                                       bool mean, bool gradient) {
  const c10::DeviceGuard on_device(logits.device());
  const auto options = logits.options().dtype(real_type(logits.scalar_type()));
  const at::Tensor losses = at::empty({logits.size(0)}, options);
  const at::Tensor inverse = at::empty({}, options);
  const TokenLossCall call{.logits = logits.data_ptr(),
                           .dtype = float_dtype(logits, "token_loss()"),
                           .rows = logits.size(0),
                           .vocabulary = logits.size(1),
                           .row_stride = logits.stride(0),
                           .targets = targets.const_data_ptr<std::int64_t>(),
                           .weights = weights ? weights->const_data_ptr() : nullptr,
                           .losses = losses.data_ptr(),
                           .inverse = inverse.data_ptr(),
                           .ignore_index = ignore_index,
                           .smoothing = smoothing,
                           .z_loss = z_loss,
                           .mean = mean,
                           .gradient = gradient,
                           .scaled = logits.scalar_type() != at::kHalf};
  if (logits.is_cpu())
    compute_on_host(call);
  else
    token_loss_on_device(call, stream_of(logits));
  return {losses, inverse};
}

void scale_rows_operator(const at::Tensor& data, const at::Tensor& factors) {
  const c10::DeviceGuard on_device(data.device());
  const ScaleRowsCall call{.data = data.data_ptr(),
                           .dtype = float_dtype(data, "token_loss()"),
                           .rows = data.size(0),
                           .columns = data.size(1),
                           .row_stride = data.stride(0),
                           .factors = factors.const_data_ptr(),
                           .count = factors.numel()};
  if (!data.is_cpu()) return scale_rows_on_device(call, stream_of(data));
  at::parallel_for(0, call.rows, rows_of_thread(call.columns),
                   [&](std::int64_t first, std::int64_t last) { scale_rows_on_host(call, first, last); });
}

}  // namespace kernels

namespace {

using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

/// Computes the loss of each row, as one node of autograd's graph.
class TokenLoss : public torch::autograd::Function<TokenLoss> {
 public:
  static at::Tensor forward(AutogradContext* context, const at::Tensor& logits, const at::Tensor& targets,
                            const std::optional<at::Tensor>& weights, const TokenLossOptions& options,
                            bool with_gradient) {
    at::Tensor rows = logits.detach();
    // The gradient is about to overwrite the logits. If a node has saved the logits, its backward must fail, because it
    // would read the gradient as logits. The raised version makes it fail.
    if (with_gradient && options.overwrite_logits) torch::autograd::impl::bump_version(logits);
    if (with_gradient && !options.overwrite_logits)
      rows = rows.clone(at::MemoryFormat::Contiguous);
    else if (rows.stride(1) != 1 && rows.size(1) > 1)
      rows = rows.contiguous();
    const auto [losses, inverse] = kernels::call_operator<kernels::TokenLossSignature>(
        "mn::token_loss", rows, targets, weights, options.ignore_index, options.label_smoothing, options.z_loss,
        options.reduction == TokenLossReduction::kMean, with_gradient);
    if (with_gradient) context->save_for_backward({rows, inverse});
    context->saved_data["used"] = false;
    return losses;
  }

  /// gradients[0] holds the gradient of each row's loss, a factor for this row. If the losses were added up, all rows
  /// have one factor: a single number, expanded to all rows.
  static variable_list backward(AutogradContext* context, const variable_list& gradients) {
    if (at::GradMode::is_enabled() || context->saved_data["used"].toBool())
      throw ArgumentError("token_loss() can be differentiated only once: its backward overwrites what it has saved");
    context->saved_data["used"] = true;
    const auto saved = context->get_saved_variables();
    at::Tensor factors = gradients[0];
    if (factors.stride(0) == 0 && factors.numel() > 0) factors = factors[0];
    if (saved[0].scalar_type() == at::kHalf) factors = factors.mul(saved[1]);
    kernels::call_operator<kernels::ScaleRowsSignature>("mn::scale_rows", saved[0], factors.contiguous());
    return {saved[0], at::Tensor(), at::Tensor(), at::Tensor(), at::Tensor()};
  }
};

void check(const at::Tensor& logits, const at::Tensor& targets, const TokenLossOptions& options) {
  const auto fail = [](const std::string& what) { throw ArgumentError("token_loss(): " + what); };
  const auto text = [](const at::Tensor& tensor) {
    OutText out;
    out << tensor.sizes();
    return out.str();
  };
  static_cast<void>(kernels::float_dtype(logits, "token_loss()"));
  if (logits.dim() < 1 || logits.sizes().slice(0, logits.dim() - 1) != targets.sizes())
    fail("logits " + text(logits) + " need targets of the same shape but for the last dimension, not " + text(targets));
  if (!at::isIntegralType(targets.scalar_type(), /*includeBool=*/false))
    fail(std::string("targets are integers, not ") + c10::toString(targets.scalar_type()));
  if (options.weights.defined() && options.weights.sizes() != targets.sizes())
    fail("weights " + text(options.weights) + " must have the targets' shape, " + text(targets));
  if (!(options.label_smoothing >= 0 && options.label_smoothing <= 1))
    fail("label smoothing must be between 0 and 1, got " + std::to_string(options.label_smoothing));
  for (const at::Tensor& other : {targets, options.weights})
    if (other.defined() && other.device() != logits.device())
      fail("logits lie on " + logits.device().str() + ", targets or weights on " + other.device().str());
}

}  // namespace

at::Tensor token_loss(const at::Tensor& logits, const at::Tensor& targets, const TokenLossOptions& options) {
  check(logits, targets, options);
  const bool with_gradient = at::GradMode::is_enabled() && logits.requires_grad();
  if (with_gradient && options.overwrite_logits && logits.is_leaf())
    throw ArgumentError("token_loss(): logits that are a leaf of autograd's graph (a parameter) can't be overwritten");
  const at::Tensor rows = logits.dim() == 1 ? logits.unsqueeze(0) : logits.flatten(0, -2);
  std::optional<at::Tensor> weights;
  if (options.weights.defined())
    weights = options.weights.detach().flatten().to(kernels::real_type(logits.scalar_type())).contiguous();
  const at::Tensor losses =
      TokenLoss::apply(rows, targets.flatten().to(at::kLong).contiguous(), weights, options, with_gradient);
  return options.reduction == TokenLossReduction::kNone ? losses.reshape(targets.sizes()) : losses.sum();
}

}  // namespace mn

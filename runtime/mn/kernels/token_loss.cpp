#include <mn/kernels/token_loss.hpp>

#include <algorithm>
#include <string>

#include <ATen/TensorOperators.h>
#include <ATen/core/grad_mode.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/full_like.h>
#include <ATen/ops/log_softmax.h>
#include <ATen/ops/logsumexp.h>
#include <c10/core/DeviceGuard.h>
#include <torch/csrc/autograd/custom_function.h>
#include <torch/csrc/autograd/variable.h>

#include <mn/core/classic_stream.hpp>
#include <mn/core/error.hpp>
#include <mn/kernels/operators.hpp>
#include <mn/kernels/token_loss_call.hpp>

namespace mn {
namespace kernels {
namespace {

/// Throws if a row that counts has a target outside of the vocabulary.
void check_on_host(const TokenLossCall& call, const at::Tensor& targets, const at::Tensor& weights) {
  const at::Tensor is_wrong = targets.lt(0).logical_or_(targets.ge(call.vocabulary)).logical_and_(weights.ne(0));
  if (!is_wrong.any().item<bool>()) return;
  const auto row = is_wrong.nonzero()[0][0].item<std::int64_t>();
  throw ArgumentError("token_loss(): target " + std::to_string(call.targets[row]) + " of row " + std::to_string(row) +
                      " is none of " + std::to_string(call.vocabulary) +
                      " classes; rows to leave out have the target " + std::to_string(call.ignore_index));
}

/// Computes the losses of some rows, and overwrites the logits by the gradient if the call wants it. Targets, weights
/// and losses are (rows, 1).
void compute_rows_on_host(const TokenLossCall& call, const at::Tensor& logits, const at::Tensor& targets,
                          const at::Tensor& weights, const at::Tensor& inverse, const at::Tensor& losses) {
  const at::Tensor x = logits.to(weights.scalar_type()), is_left_out = weights.eq(0);
  const at::Tensor log_p = at::log_softmax(x, 1);  // logarithms of the classes' probabilities
  const at::Tensor log_sum = call.z_loss != 0 ? at::logsumexp(x, 1, /*keepdim=*/true) : at::Tensor();
  const at::Tensor loss = log_p.gather(1, targets).mul_(call.smoothing - 1);
  if (call.smoothing != 0) loss.sub_(log_p.mean(1, /*keepdim=*/true), call.smoothing);
  if (call.z_loss != 0) loss.add_(log_sum.square(), call.z_loss);
  losses.copy_(loss.mul_(weights * inverse).masked_fill_(is_left_out, 0));
  if (!call.gradient) return;
  const at::Tensor d_x = log_p.exp_();
  if (call.z_loss != 0) d_x.mul_(1 + 2 * call.z_loss * log_sum);
  if (call.smoothing != 0) d_x.sub_(call.smoothing / static_cast<double>(call.vocabulary));
  d_x.scatter_add_(1, targets, at::full_like(weights, call.smoothing - 1));
  logits.copy_(d_x.mul_(call.scaled ? weights * inverse : weights).masked_fill_(is_left_out, 0));
}

/// Computes as many rows at a time as fit in a cache.
void compute_on_host(const TokenLossCall& call, const at::Tensor& logits, const at::Tensor& targets,
                     const std::optional<at::Tensor>& given, const at::Tensor& inverse, const at::Tensor& losses) {
  constexpr std::int64_t kElements = std::int64_t{1} << 16;
  const at::Tensor is_left_out = targets.eq(call.ignore_index);
  const at::Tensor weights =
      given ? given->masked_fill(is_left_out, 0) : is_left_out.logical_not().to(inverse.scalar_type());
  check_on_host(call, targets, weights);
  const auto total = weights.sum().item<double>();
  inverse.fill_(!call.mean ? 1 : total != 0 ? 1 / total : 0);
  losses.zero_();
  const at::Tensor classes = targets.clamp(0, call.vocabulary - 1).unsqueeze(1);
  const std::int64_t rows = std::max<std::int64_t>(kElements / std::max<std::int64_t>(call.vocabulary, 1), 1);
  for (std::int64_t first = 0; call.vocabulary > 0 && first < call.rows; first += rows) {
    const auto part = [first, count = std::min(rows, call.rows - first)](const at::Tensor& all) {
      return all.narrow(0, first, count);
    };
    compute_rows_on_host(call, part(logits), part(classes), part(weights.unsqueeze(1)), inverse,
                         part(losses.unsqueeze(1)));
  }
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
    compute_on_host(call, logits, targets, weights, inverse, losses);
  else
    token_loss_on_device(call, stream_of(logits));
  return {losses, inverse};
}

void scale_rows_operator(const at::Tensor& data, const at::Tensor& factors) {
  const c10::DeviceGuard on_device(data.device());
  if (data.is_cpu()) {
    if (!factors.eq(1).all().item<bool>()) data.mul_(factors.view({-1, 1}));
    return;
  }
  const ScaleRowsCall call{.data = data.data_ptr(),
                           .dtype = float_dtype(data, "token_loss()"),
                           .rows = data.size(0),
                           .columns = data.size(1),
                           .row_stride = data.stride(0),
                           .factors = factors.const_data_ptr(),
                           .count = factors.numel()};
  scale_rows_on_device(call, stream_of(data));
}

}  // namespace kernels

namespace {

using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

class TokenLoss : public torch::autograd::Function<TokenLoss> {
 public:
  static at::Tensor forward(AutogradContext* context, const at::Tensor& logits, const at::Tensor& targets,
                            const std::optional<at::Tensor>& weights, const TokenLossOptions& options,
                            bool with_gradient) {
    at::Tensor rows = logits.detach();
    // The gradient is about to overwrite the logits. If a node has saved them, its backward would read the gradient as
    // logits. The raised version makes this backward fail.
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

  /// gradients[0] holds a factor for each row's loss: for a sum of losses, one number expanded to all rows.
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

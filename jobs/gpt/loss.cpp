#include "gpt/loss.hpp"

#include <algorithm>
#include <numbers>

#include <torch/torch.h>

namespace mn::jobs {
namespace {

using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

class TokenLoss : public torch::autograd::Function<TokenLoss> {
 public:
  static at::Tensor forward(AutogradContext* context, const at::Tensor& logits, const at::Tensor& targets,
                            std::int64_t elements, bool with_gradient) {
    const std::int64_t rows = logits.size(0);
    const std::int64_t at_once = std::max<std::int64_t>(elements / logits.size(1), 1);
    const at::Tensor losses = torch::empty({rows}, logits.options().dtype(torch::kFloat));
    const at::Tensor gradient = with_gradient ? torch::empty_like(logits) : at::Tensor();
    for (std::int64_t first = 0; first < rows; first += at_once) {
      const std::int64_t count = std::min(at_once, rows - first);
      const at::Tensor target = targets.narrow(0, first, count).unsqueeze(1);
      at::Tensor values = torch::log_softmax(logits.narrow(0, first, count), 1, torch::kFloat);
      losses.narrow(0, first, count).copy_(values.gather(1, target).squeeze(1).neg());
      if (!gradient.defined()) continue;
      values.exp_();
      values.scatter_(1, target, values.gather(1, target) - 1);
      gradient.narrow(0, first, count).copy_(values);
    }
    context->save_for_backward({gradient});
    return losses.mean();
  }

  static variable_list backward(AutogradContext* context, const variable_list& gradients) {
    const at::Tensor gradient = context->get_saved_variables()[0];
    // gradients[0] contains the scale of a GradScaler. The division by the number of rows comes after the scale,
    // because in float16 the quotient would otherwise underflow.
    const at::Tensor factor = gradients[0] / static_cast<double>(gradient.size(0));
    return {gradient * factor, at::Tensor(), at::Tensor(), at::Tensor()};
  }
};

}  // namespace

at::Tensor token_loss(const at::Tensor& logits, const at::Tensor& targets, std::int64_t elements) {
  return TokenLoss::apply(logits, targets, elements, torch::GradMode::is_enabled() && logits.requires_grad());
}

at::Tensor loss_of(models::Gpt& model, const Batch& batch, const at::Tensor& bytes_of, bool recompute,
                   Summary& report) {
  const auto input = batch.data.slice(1, 0, -1);
  const auto target = batch.data.slice(1, 1).flatten();
  const auto logits = model.forward(input, recompute).flatten(0, 1);
  const auto loss = token_loss(logits, target);
  const auto bytes = bytes_of.index_select(0, target).sum().to(torch::kDouble);
  const auto bits = loss.detach().to(torch::kDouble) * (static_cast<double>(target.numel()) / std::numbers::ln2);
  report.add("bits_per_byte", bits / bytes, bytes);
  return loss;
}

}  // namespace mn::jobs

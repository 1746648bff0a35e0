#include "gpt/loss.hpp"

#include <numbers>

#include <torch/torch.h>

#include <mn/kernels/token_loss.hpp>

namespace mn::jobs {

at::Tensor loss_of(models::Gpt& model, const Batch& batch, const at::Tensor& bytes_of, bool recompute,
                   Summary& report) {
  const auto input = batch.data.slice(1, 0, -1);
  const auto target = batch.data.slice(1, 1).flatten();
  const auto logits = model.forward(input, recompute).flatten(0, 1);
  const auto loss = token_loss(logits, target, {.overwrite_logits = true});
  const auto bytes = bytes_of.index_select(0, target).sum().to(torch::kDouble);
  const auto bits = loss.detach().to(torch::kDouble) * (static_cast<double>(target.numel()) / std::numbers::ln2);
  report.add("bits_per_byte", bits / bytes, bytes);
  return loss;
}

}  // namespace mn::jobs

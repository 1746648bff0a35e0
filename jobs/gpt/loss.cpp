#include "gpt/loss.hpp"

#include <numbers>

#include <torch/torch.h>

#include <mn/kernels/token_loss.hpp>

namespace mn::jobs {
namespace {

constexpr double kBalanceFactor = 0.01;  // of the Switch Transformer (arXiv:2101.03961)
constexpr double kZFactor = 0.001;       // of ST-MoE (arXiv:2202.08906)

}  // namespace

at::Tensor loss_of(models::LanguageModel& model, const Batch& batch, const at::Tensor& bytes_of,
                   const LossOptions& options, Summary& report) {
  const bool trains = model.is_training();
  const auto input = batch.data.slice(1, 0, -1);
  const auto target = batch.data.slice(1, 1).flatten();
  const auto logits = model.forward(input, options.recompute).flatten(0, 1);
  const auto loss = token_loss(logits, target,
                               {.label_smoothing = trains ? options.label_smoothing : 0,
                                .z_loss = trains ? options.z_loss : 0,
                                .overwrite_logits = true});
  const auto& router = model.router_losses();
  if (router.balance.defined())
    report.add("load_balance", router.balance.detach(), static_cast<double>(target.numel()));
  if (!trains || options.is_plain()) {
    const auto bytes = bytes_of.index_select(0, target).sum().to(torch::kDouble);
    const auto bits = loss.detach().to(torch::kDouble) * (static_cast<double>(target.numel()) / std::numbers::ln2);
    report.add("bits_per_byte", bits / bytes, bytes);
  }
  if (!router.balance.defined() || !trains) return loss;
  return loss + kBalanceFactor * router.balance + kZFactor * router.z;
}

}  // namespace mn::jobs

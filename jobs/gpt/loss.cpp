#include "gpt/loss.hpp"

#include <algorithm>
#include <numbers>

#include <torch/torch.h>

#include <mn/kernels/token_loss.hpp>

namespace mn::jobs {
namespace {

constexpr double kBalanceFactor = 0.01;  // of the Switch Transformer (arXiv:2101.03961)
constexpr double kZFactor = 0.001;       // of ST-MoE (arXiv:2202.08906)

/// The targets of a minibatch.
struct Targets {
  at::Tensor tokens;     // (N · T)
  at::Tensor counted;    // (N · T) true: a token to be predicted; undefined: all are
  double count;          // number of tokens to be predicted
  at::Tensor documents;  // (N, T) numbers of the documents of the input's tokens; undefined: samples are not packed
};

Targets targets_of(const Batch& batch) {
  Targets targets = {.tokens = batch.data.slice(1, 1).flatten(), .counted = {}, .count = 0, .documents = {}};
  targets.count = static_cast<double>(targets.tokens.numel());
  const auto documents = std::ranges::find(batch.fields, "documents", &BatchField::name);
  if (documents == batch.fields.end()) return targets;
  targets.counted = documents->values.slice(1, 1).flatten() > 0;
  targets.documents = documents->values.slice(1, 0, -1).abs();
  targets.count = targets.counted.sum().item<double>();
  return targets;
}

}  // namespace

Loss loss_of(models::LanguageModel& model, const Batch& batch, const at::Tensor& bytes_of, const LossOptions& options,
             Summary& report) {
  const bool trains = model.is_training();
  const auto input = batch.data.slice(1, 0, -1);
  const auto [target, counted, count, documents] = targets_of(batch);
  const auto logits = model.forward(input, options.recompute, documents).flatten(0, 1);
  const TokenLossOptions how = {.label_smoothing = trains ? options.label_smoothing : 0,
                                .z_loss = trains ? options.z_loss : 0,
                                .overwrite_logits = true};
  const auto kept = counted.defined() ? target.masked_fill(counted.logical_not(), how.ignore_index) : target;
  const auto loss = token_loss(logits, kept, how);
  const auto& router = model.router_losses();
  if (router.balance.defined()) report.add("load_balance", router.balance.detach(), count);
  if (!trains || options.is_plain()) {
    const auto lengths = bytes_of.index_select(0, target);
    const auto bytes = (counted.defined() ? lengths * counted : lengths).sum().to(torch::kDouble);
    const auto bits = loss.detach().to(torch::kDouble) * (count / std::numbers::ln2);
    report.add("bits_per_byte", bits / bytes.clamp_min(1), bytes);
  }
  const bool has_routers = router.balance.defined() && trains;
  const auto whole = has_routers ? loss + kBalanceFactor * router.balance + kZFactor * router.z : loss;
  return counted.defined() ? Loss(whole, count) : Loss(whole);
}

}  // namespace mn::jobs

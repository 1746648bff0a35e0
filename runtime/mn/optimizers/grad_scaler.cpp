#include <cmath>

#include <ATen/core/grad_mode.h>
#include <ATen/ops/_amp_foreach_non_finite_check_and_unscale.h>
#include <ATen/ops/full.h>
#include <ATen/ops/zeros.h>

#include <mn/core/error.hpp>
#include <mn/core/json.hpp>
#include <mn/optimizers/grad_scaler.hpp>

namespace mn {
namespace {

// Past this, float32 losses would overflow by the scale alone.
constexpr double kMaxScale = 1.7e38;

}  // namespace

GradScaler::GradScaler(const GradScalerOptions& options) : options_(options), scale_(options.init_scale) {
  const bool in_range = options.init_scale > 0 && options.init_scale <= kMaxScale && options.growth_factor >= 1 &&
                        options.backoff_factor > 0 && options.backoff_factor < 1 && options.growth_interval >= 1;
  if (!in_range || !std::isfinite(options.growth_factor)) {
    throw UsageError(
        "a GradScaler needs a scale above 0, a growth of at least 1, a backoff between 0 and 1, and an interval of at "
        "least 1");
  }
}

at::Tensor GradScaler::scale_loss(const at::Tensor& loss) {
  has_scaled_ = true;
  return loss.to(at::kFloat).mul(scale_);
}

bool GradScaler::unscale(const std::vector<at::Tensor>& parameters) {
  const at::NoGradGuard no_grad;
  std::vector<at::Tensor> gradients;
  for (const at::Tensor& parameter : parameters) {
    if (parameter.grad().defined()) gradients.push_back(parameter.grad());
  }
  if (gradients.empty()) return true;
  // One flag for all gradients: a single value that is not finite spoils the step, and the host asks once.
  const auto options = gradients.front().options().dtype(at::kFloat);
  at::Tensor found = at::zeros({1}, options);
  const at::Tensor inverse = at::full({1}, 1 / scale_, options);
  at::_amp_foreach_non_finite_check_and_unscale_(gradients, found, inverse);
  return found.item<float>() == 0;  // waits for the device: the host decides whether the step is made
}

void GradScaler::update(bool finite) {
  has_scaled_ = false;
  if (!finite) {
    scale_ *= options_.backoff_factor;
    good_steps_ = 0;
    ++skipped_;
    return;
  }
  if (++good_steps_ < options_.growth_interval) return;
  good_steps_ = 0;
  if (scale_ * options_.growth_factor <= kMaxScale) scale_ *= options_.growth_factor;
}

nlohmann::json GradScaler::state() const {
  return {{"scale", scale_}, {"good_steps", good_steps_}, {"skipped", skipped_}};
}

void GradScaler::load_state(const nlohmann::json& state) {
  scale_ = state.at("scale").get<double>();
  good_steps_ = whole_number<std::int64_t>(state.at("good_steps"));
  skipped_ = whole_number<std::int64_t>(state.at("skipped"));
}

}  // namespace mn

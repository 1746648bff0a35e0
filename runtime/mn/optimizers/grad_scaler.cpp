#include <mn/optimizers/grad_scaler.hpp>

#include <algorithm>
#include <atomic>
#include <cmath>

#include <ATen/core/grad_mode.h>
#include <ATen/ops/_amp_foreach_non_finite_check_and_unscale.h>
#include <ATen/ops/_amp_update_scale.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/full.h>
#include <ATen/ops/zeros.h>

#include <mn/core/error.hpp>
#include <mn/core/json.hpp>
#include <mn/optimizers/gradient_values.hpp>
#include <mn/sharding/pieces.hpp>

namespace mn {
namespace {

// The largest scale. With a larger scale a float32 loss could overflow because of the scale alone.
constexpr double kMaxScale = 1.7e38;

/// Rounds the host's scale to float32, so that losses are multiplied and gradients divided by exactly the same number.
double as_float(double scale) { return static_cast<float>(scale); }

}  // namespace

GradScaler::GradScaler(const GradScalerOptions& options) : options_(options), scale_(as_float(options.init_scale)) {
  const bool in_range = options.init_scale > 0 && options.init_scale <= kMaxScale && options.growth_factor >= 1 &&
                        options.backoff_factor > 0 && options.backoff_factor < 1 && options.growth_interval >= 1;
  if (!in_range || !std::isfinite(options.growth_factor)) {
    throw UsageError(
        "a GradScaler needs a scale above 0, a growth of at least 1, a backoff between 0 and 1, and an interval of at "
        "least 1");
  }
}

void GradScaler::stay_on(c10::Device device) {
  const auto options = at::TensorOptions(at::kFloat).device(device);
  device_.scale = at::full({1}, scale_, options);
  device_.good_steps = at::full({1}, good_steps_, options.dtype(at::kInt));
  device_.skipped = at::full({1}, skipped_, options);
  device_.on_host = at::zeros({2}, at::TensorOptions(at::kFloat).pinned_memory(true));
  device_.on_host.mutable_data_ptr<float>()[0] = static_cast<float>(scale_);
  device_.on_host.mutable_data_ptr<float>()[1] = static_cast<float>(skipped_);
}

at::Tensor GradScaler::scale_loss(const at::Tensor& loss) const {
  const at::Tensor full = loss.to(at::kFloat);
  // Multiplies by a copy of the scale, because backward needs the same factor even after update() has overwritten the
  // scale.
  return device_.scale.defined() ? full.mul(device_.scale[0].clone()) : full.mul(scale_);
}

bool GradScaler::unscale(const std::vector<at::Tensor>& parameters) {
  const at::NoGradGuard no_grad;
  std::vector<at::Tensor> gradients;
  for (const at::Tensor& parameter : parameters) {
    if (parameter.grad().defined()) gradients.push_back(gradient_values(parameter));
  }
  has_overflow_.reset();
  if (gradients.empty()) return true;
  // A NaN or an infinity in any gradient spoils the whole step. Therefore one flag serves all gradients, and the host
  // waits for a single number.
  const auto options = gradients.front().options().dtype(at::kFloat);
  const bool stays = device_.scale.defined();
  has_overflow_ = at::zeros({1}, options);
  const at::Tensor inverse = stays ? device_.scale.reciprocal() : at::full({1}, 1 / scale_, options);
  at::_amp_foreach_non_finite_check_and_unscale_(gradients, has_overflow_, inverse);
  make_whole_maximum(has_overflow_, parameters);
  return stays || has_overflow_.item<float>() == 0;  // before stay_on() the host waits and decides
}

/// Enqueues a copy of two numbers from the device to the host: the scale, and the count of steps that were left out.
void GradScaler::show_host() {
  device_.on_host.copy_(at::cat({device_.scale, device_.skipped}), /*non_blocking=*/true);
}

/// Returns number i of on_host. The read is atomic, because the device may be writing the number now.
double GradScaler::seen(std::int64_t i) const noexcept {
  return std::atomic_ref(device_.on_host.mutable_data_ptr<float>()[i]).load(std::memory_order_relaxed);
}

double GradScaler::scale() const noexcept { return device_.scale.defined() ? seen(0) : scale_; }

std::int64_t GradScaler::skipped() const noexcept {
  return device_.scale.defined() ? static_cast<std::int64_t>(seen(1)) : skipped_;
}

void GradScaler::update(bool finite) {
  const double least = std::min(kMinScale, as_float(options_.init_scale));
  if (device_.scale.defined()) {
    if (!has_overflow_.defined()) return;  // there was no gradient
    const at::NoGradGuard no_grad;
    device_.skipped.add_(has_overflow_);
    at::_amp_update_scale_(device_.scale, device_.good_steps, has_overflow_, options_.growth_factor,
                           options_.backoff_factor, options_.growth_interval);
    device_.scale.clamp_min_(least);
    return show_host();
  }
  if (!finite) {
    scale_ = std::max(as_float(scale_ * options_.backoff_factor), least);
    good_steps_ = 0;
    ++skipped_;
    return;
  }
  if (++good_steps_ < options_.growth_interval) return;
  good_steps_ = 0;
  if (scale_ * options_.growth_factor <= kMaxScale) scale_ = as_float(scale_ * options_.growth_factor);
}

std::int64_t GradScaler::count_step() {
  // The host's copies of the scale and of the count of skipped steps are at most kLate steps old.
  constexpr std::int64_t kLate = 2;
  const std::int64_t slack = device_.scale.defined() ? kLate : 0;
  ++steps_;
  if (skipped() - skipped_at_good_ + slack < steps_ - good_at_) {
    good_at_ = steps_;
    skipped_at_good_ = skipped();
  }
  std::int64_t many = kTooManySteps;
  while (many + slack < steps_ - good_at_) many *= 10;
  return many + slack == steps_ - good_at_ ? many : 0;
}

nlohmann::json GradScaler::state() const {
  if (!device_.scale.defined()) return {{"scale", scale_}, {"good_steps", good_steps_}, {"skipped", skipped_}};
  const at::Tensor numbers = at::cat({device_.scale, device_.good_steps.to(at::kFloat), device_.skipped}).cpu();
  const float* const number = numbers.const_data_ptr<float>();
  return {{"scale", static_cast<double>(number[0])},
          {"good_steps", static_cast<std::int64_t>(number[1])},
          {"skipped", static_cast<std::int64_t>(number[2])}};
}

void GradScaler::load_state(const nlohmann::json& state) {
  scale_ = as_float(state.at("scale").get<double>());
  good_steps_ = whole_number<std::int64_t>(state.at("good_steps"));
  skipped_ = whole_number<std::int64_t>(state.at("skipped"));
  if (device_.scale.defined()) stay_on(device_.scale.device());
  good_at_ = steps_;
  skipped_at_good_ = skipped_;
}

}  // namespace mn

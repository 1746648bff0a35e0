#include <mn/trainer/extensions/plateau.hpp>

#include <algorithm>
#include <utility>

#include <mn/core/error.hpp>
#include <mn/core/json.hpp>
#include <mn/core/log.hpp>
#include <mn/trainer/trainer.hpp>

namespace mn::extensions {

Plateau::Plateau(Monitor monitor, const PlateauOptions& options) : monitor_(std::move(monitor)), options_(options) {
  if (!(options_.factor > 0 && options_.factor < 1) || options_.patience < 1) {
    throw UsageError("on a plateau the rate falls by a factor in (0, 1) after at least 1 report, got " +
                     std::to_string(options_.factor) + " and " + std::to_string(options_.patience));
  }
  if (options_.cooldown < 0 || !(options_.min_rate >= 0)) {
    throw UsageError("on a plateau the cooldown and the least rate must be at least 0, got " +
                     std::to_string(options_.cooldown) + " and " + std::to_string(options_.min_rate));
  }
}

Schedule Plateau::schedule(Schedule before) const {
  return [this, before = std::move(before)](std::int64_t iteration) {
    const double rate = before(iteration);
    return std::max(scale_ * rate, std::min(rate, options_.min_rate));
  };
}

void Plateau::run(Trainer& trainer) {
  if (!monitor_.improved()) return;
  if (cooldown_ > 0) {
    --cooldown_;
    monitor_.restart_wait();
  }
  if (monitor_.waited() < options_.patience) return;
  constexpr double kRounding = 1 + 1e-9;
  const auto may_fall = [&](const auto& group) { return group.options().get_lr() > options_.min_rate * kRounding; };
  if (std::ranges::none_of(trainer.optimizer().param_groups(), may_fall)) return;
  scale_ *= options_.factor;
  if (trainer.is_root()) {
    const std::string floor =
        options_.min_rate > 0 ? ", but not below " + nlohmann::json(options_.min_rate).dump() : std::string();
    log_info(monitor_.wait_text() + ": the learning rate falls to " + nlohmann::json(scale_).dump() +
             " of its schedule" + floor);
  }
  cooldown_ = options_.cooldown;
  monitor_.restart_wait();
}

nlohmann::json Plateau::state() const {
  return {{"monitor", monitor_.state()}, {"scale", scale_}, {"cooldown", cooldown_}};
}

void Plateau::load_state(const nlohmann::json& state) {
  if (!state.is_object()) return;
  monitor_.load_state(state.at("monitor"));
  scale_ = state.at("scale").get<double>();
  cooldown_ = state.value("cooldown", std::int64_t{0});
}

}  // namespace mn::extensions

#include <mn/trainer/extensions/plateau.hpp>

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
}

Schedule Plateau::schedule(Schedule before) const {
  return [this, before = std::move(before)](std::int64_t iteration) { return scale_ * before(iteration); };
}

void Plateau::initialize(Trainer& trainer) { monitor_.begin(*this, trainer); }

void Plateau::run(Trainer& trainer) {
  static_cast<void>(monitor_.improved());
  if (monitor_.waited() < options_.patience) return;
  scale_ *= options_.factor;
  if (trainer.is_root()) {
    log_info(monitor_.wait_text() + ": the learning rate falls to " + nlohmann::json(scale_).dump() +
             " of its schedule");
  }
  monitor_.restart_wait();
}

nlohmann::json Plateau::state() const { return {{"monitor", monitor_.state()}, {"scale", scale_}}; }

void Plateau::load_state(const nlohmann::json& state) {
  if (!state.is_object()) return;
  monitor_.load_state(state.at("monitor"));
  scale_ = state.at("scale").get<double>();
}

}  // namespace mn::extensions

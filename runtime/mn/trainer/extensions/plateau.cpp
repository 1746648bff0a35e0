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
  const auto improved = monitor_.improved();
  if (!improved) return;
  waited_ = *improved ? 0 : waited_ + 1;
  if (waited_ < options_.patience) return;
  waited_ = 0;
  scale_ *= options_.factor;
  if (trainer.is_root()) {
    log_info(monitor_.value() + " was not better in " + std::to_string(options_.patience) + " reports (" +
             monitor_.best_text() + "): the learning rate falls to " + nlohmann::json(scale_).dump() +
             " of its schedule");
  }
}

nlohmann::json Plateau::state() const { return {{"best", monitor_.state()}, {"waited", waited_}, {"scale", scale_}}; }

void Plateau::load_state(const nlohmann::json& state) {
  if (!state.is_object()) return;
  waited_ = monitor_.load_state(state.at("best")) ? whole_number<std::int64_t>(state.at("waited")) : 0;
  scale_ = state.at("scale").get<double>();
}

}  // namespace mn::extensions

#include <mn/trainer/extensions/early_stopping.hpp>

#include <utility>

#include <mn/core/error.hpp>
#include <mn/core/json.hpp>
#include <mn/trainer/trainer.hpp>

namespace mn::extensions {

EarlyStopping::EarlyStopping(Monitor monitor, std::int64_t patience)
    : monitor_(std::move(monitor)), patience_(patience) {
  if (patience_ < 1) throw UsageError("early stopping waits for at least 1 report, got " + std::to_string(patience_));
}

/// Stops a resumed training, too, if it had ended early.
void EarlyStopping::initialize(Trainer& trainer) {
  monitor_.begin(*this, trainer);
  stop_if_due(trainer);
}

void EarlyStopping::run(Trainer& trainer) {
  const auto improved = monitor_.improved();
  if (!improved) return;
  waited_ = *improved ? 0 : waited_ + 1;
  stop_if_due(trainer);
}

void EarlyStopping::stop_if_due(Trainer& trainer) const {
  if (waited_ < patience_) return;
  trainer.stop(monitor_.value() + " was not better in " + std::to_string(waited_) + " reports (" +
               monitor_.best_text() + ")");
}

nlohmann::json EarlyStopping::state() const { return {{"best", monitor_.state()}, {"waited", waited_}}; }

void EarlyStopping::load_state(const nlohmann::json& state) {
  if (!state.is_object()) return;
  waited_ = monitor_.load_state(state.at("best")) ? whole_number<std::int64_t>(state.at("waited")) : 0;
}

}  // namespace mn::extensions

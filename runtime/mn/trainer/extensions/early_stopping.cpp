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

/// If early stopping has ended the training before the checkpoint, the resumed training also stops at once.
void EarlyStopping::initialize(Trainer& trainer) {
  monitor_.begin(*this, trainer);
  stop_if_due(trainer);
}

void EarlyStopping::run(Trainer& trainer) {
  static_cast<void>(monitor_.improved());
  stop_if_due(trainer);
}

void EarlyStopping::stop_if_due(Trainer& trainer) const {
  if (monitor_.waited() >= patience_) trainer.stop(monitor_.wait_text());
}

nlohmann::json EarlyStopping::state() const { return monitor_.state(); }

void EarlyStopping::load_state(const nlohmann::json& state) {
  if (state.is_object()) monitor_.load_state(state);
}

}  // namespace mn::extensions

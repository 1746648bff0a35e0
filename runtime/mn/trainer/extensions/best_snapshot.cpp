#include <mn/core/json.hpp>
#include <mn/trainer/extensions/best_snapshot.hpp>
#include <mn/trainer/trainer.hpp>

namespace mn::extensions {

void BestSnapshot::initialize(Trainer& /*trainer*/) { monitor_.begin(); }

void BestSnapshot::run(Trainer& trainer) {
  if (monitor_.improved() == true) trainer.save(trainer.out() / "snapshot_best");
}

nlohmann::json BestSnapshot::state() const { return monitor_.state(); }

void BestSnapshot::load_state(const nlohmann::json& state) { monitor_.load_state(state); }

}  // namespace mn::extensions

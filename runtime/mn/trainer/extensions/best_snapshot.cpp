#include <mn/checkpoint/format/checkpoint_folder.hpp>
#include <mn/core/json.hpp>
#include <mn/trainer/extensions/best_snapshot.hpp>
#include <mn/trainer/extensions/try_to_write.hpp>
#include <mn/trainer/trainer.hpp>

namespace mn::extensions {

void BestSnapshot::initialize(Trainer& /*trainer*/) { monitor_.begin(); }

void BestSnapshot::run(Trainer& trainer) {
  if (monitor_.improved() != true) return;
  const auto mark = [this, out = trainer.out(), best = checkpoint_path(trainer.out(), trainer.iteration())] {
    try_to_write(has_failed_, [&] {
      mark_best(out, best);
      remove_old_checkpoints(out, keep_);
    });
  };
  trainer.save_in_background([] {}, mark);
}

nlohmann::json BestSnapshot::state() const { return monitor_.state(); }

void BestSnapshot::load_state(const nlohmann::json& state) { monitor_.load_state(state); }

}  // namespace mn::extensions

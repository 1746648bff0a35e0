#include <mn/checkpoint/format/checkpoint_folder.hpp>
#include <mn/core/json.hpp>
#include <mn/trainer/extensions/best_snapshot.hpp>
#include <mn/trainer/extensions/try_to_write.hpp>
#include <mn/trainer/trainer.hpp>

namespace mn::extensions {

void BestSnapshot::initialize(Trainer& trainer) {
  monitor_.begin();
  trainer.expect_saves();
  if (!best_ || !trainer.is_root()) return;
  try_to_write(has_failed_, [&] { restore_best(trainer.out(), *best_, trainer.iteration()); });
}

void BestSnapshot::run(Trainer& trainer) {
  if (monitor_.improved() != true) return;
  best_ = trainer.iteration();
  const auto mark = [this, out = trainer.out(), best = checkpoint_path(trainer.out(), trainer.iteration())] {
    try_to_write(has_failed_, [&] {
      mark_best(out, best);
      remove_old_checkpoints(out, keep_);
    });
  };
  trainer.save_in_background([] {}, mark);
}

nlohmann::json BestSnapshot::state() const {
  return {{"monitor", monitor_.state()}, {"iteration", best_ ? nlohmann::json(*best_) : nlohmann::json()}};
}

void BestSnapshot::load_state(const nlohmann::json& state) {
  const bool knows_iteration = state.is_object();  // those of earlier versions are the monitor's
  const bool is_same = monitor_.load_state(knows_iteration ? state.at("monitor") : state);
  best_.reset();
  if (is_same && knows_iteration && state.at("iteration").is_number()) {
    best_ = whole_number<std::int64_t>(state.at("iteration"));
  }
}

}  // namespace mn::extensions

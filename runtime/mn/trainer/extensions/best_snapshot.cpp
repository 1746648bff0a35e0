#include <memory>

#include <mn/checkpoint/format/checkpoint_folder.hpp>
#include <mn/core/json.hpp>
#include <mn/trainer/extensions/best_snapshot.hpp>
#include <mn/trainer/extensions/try_to_write.hpp>
#include <mn/trainer/trainer.hpp>

namespace mn::extensions {

void BestSnapshot::initialize(Trainer& trainer) {
  monitor_.begin(*this, trainer);
  trainer.expect_saves();
  if (!best_ || !trainer.is_root()) return;
  try_to_write(has_failed_, [&] { restore_best(trainer.out(), *best_, trainer.iteration()); });
}

void BestSnapshot::run(Trainer& trainer) {
  const bool is_over = save_.expired();
  if (before_ && is_over) {  // its save has failed: the next best is better than the one that is saved
    load_state(state());
  }
  if (!is_marked_ && is_over) mark(trainer.out());
  if (!monitor_.has_report()) return;
  const nlohmann::json before = state();
  if (monitor_.improved() != true) return;
  trainer.finish_save();  // of the best before
  if (!before_) before_ = before.dump();
  best_ = trainer.iteration();
  // The trainer drops this callback when the save is over, whether or not it has called it.
  const auto save = std::make_shared<bool>();
  save_ = save;
  trainer.save_in_background([this, save] { before_.reset(); }, [this, out = trainer.out()] { mark(out); });
}

/// What could not be marked may be possible now.
void BestSnapshot::finalize(Trainer& trainer) {
  trainer.finish_save();
  if (!is_marked_) mark(trainer.out());
}

/// On rank 0, perhaps on another thread while a save is under way.
void BestSnapshot::mark(const std::filesystem::path& out) {
  is_marked_ = false;
  try_to_write(has_failed_, [&] {
    mark_best(out, checkpoint_path(out, *best_));
    is_marked_ = true;
    remove_old_checkpoints(out, keep_);
  });
}

nlohmann::json BestSnapshot::state() const {
  if (before_ && save_.expired()) return nlohmann::json::parse(*before_);  // its save has failed
  return {{"monitor", monitor_.state()}, {"iteration", best_ ? nlohmann::json(*best_) : nlohmann::json()}};
}

void BestSnapshot::load_state(const nlohmann::json& state) {
  const bool knows_iteration = state.is_object();  // those of earlier versions are the monitor's
  const bool is_same = monitor_.load_state(knows_iteration ? state.at("monitor") : state);
  best_.reset();
  before_.reset();
  if (is_same && knows_iteration && state.at("iteration").is_number()) {
    best_ = whole_number<std::int64_t>(state.at("iteration"));
  }
}

}  // namespace mn::extensions

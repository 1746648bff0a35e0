#include <mn/trainer/extensions/best_snapshot.hpp>

#include <memory>

#include <mn/checkpoint/format/checkpoint_folder.hpp>
#include <mn/core/json.hpp>
#include <mn/trainer/extensions/try_to_write.hpp>
#include <mn/trainer/trainer.hpp>

namespace mn::extensions {

void BestSnapshot::initialize(Trainer& trainer) {
  monitor_.begin(*this, trainer);
  trainer.checkpointer().expect_saves();
  if (!best_ || !trainer.is_root()) return;
  try_to_write(has_failed_, [&] { restore_best(trainer.out(), *best_, trainer.iteration()); });
}

void BestSnapshot::run(Trainer& trainer) {
  const bool is_over = save_.expired();
  if (before_ && is_over) {  // the save failed: the next best need only beat the best saved checkpoint
    load_state(state());
  }
  if (!is_marked_ && is_over) mark(trainer.out());
  if (!monitor_.has_report()) return;
  const nlohmann::json before = state();
  if (monitor_.improved() != true) return;
  trainer.checkpointer().finish();  // the save of the previous best
  if (!before_) before_ = before.dump();
  best_ = trainer.iteration();
  // The trainer drops this callback when the save is over, called or not.
  const auto save = std::make_shared<bool>();
  save_ = save;
  trainer.checkpointer().save_in_background([this, save] { before_.reset(); },
                                            [this, out = trainer.out()] { mark(out); });
}

/// Retries a link that could not be set.
void BestSnapshot::finalize(Trainer& trainer) {
  trainer.checkpointer().finish();
  if (!is_marked_) mark(trainer.out());
}

/// Called on rank 0, perhaps on the thread of a save.
void BestSnapshot::mark(const std::filesystem::path& out) {
  is_marked_ = false;
  try_to_write(has_failed_, [&] {
    mark_best(out, checkpoint_path(out, *best_));
    is_marked_ = true;
    remove_old_checkpoints(out, keep_);
  });
}

nlohmann::json BestSnapshot::state() const {
  if (before_ && save_.expired()) return nlohmann::json::parse(*before_);  // the save has failed
  return {{"monitor", monitor_.state()}, {"iteration", best_ ? nlohmann::json(*best_) : nlohmann::json()}};
}

void BestSnapshot::load_state(const nlohmann::json& state) {
  const bool is_same = monitor_.load_state(state.at("monitor"));
  best_.reset();
  before_.reset();
  if (is_same && state.at("iteration").is_number()) best_ = whole_number<std::int64_t>(state.at("iteration"));
}

}  // namespace mn::extensions

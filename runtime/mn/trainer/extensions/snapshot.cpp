#include <mn/trainer/extensions/snapshot.hpp>

#include <algorithm>
#include <span>

#include <mn/checkpoint/format/checkpoint_folder.hpp>
#include <mn/core/error.hpp>
#include <mn/core/json.hpp>
#include <mn/trainer/extensions/try_to_write.hpp>
#include <mn/trainer/trainer.hpp>

namespace mn::extensions {
namespace {

constexpr double kTrainingPerStall = 99;        // seconds of training for each second that training waited for a save
constexpr std::int64_t kRetryIterations = 100;  // number of iterations from a failed save to the next save

}  // namespace

Snapshot::Snapshot(std::size_t keep, bool continuous) : keep_(keep), continuous_(continuous) {
  if (keep_ == 0) throw UsageError("the number of checkpoints to keep must be at least 1, got 0");
}

void Snapshot::initialize(Trainer& trainer) {
  next_ = 0;
  is_committed_ = false;
  trainer.checkpointer().expect_saves();
}

/// next_after() divides by the iterations since the save began, so at least one must have passed.
void Snapshot::run(Trainer& trainer) {
  if (is_committed_ && trainer.iteration() > begun_at_) {
    next_ = next_after(trainer);
    is_committed_ = false;
  }
  const Checkpointer& checkpointer = trainer.checkpointer();
  const bool must_wait = checkpointer.is_saving() || checkpointer.is_preparing() || trainer.iteration() < next_;
  if (continuous_ && must_wait) return;
  save(trainer);
}

void Snapshot::save(Trainer& trainer) {
  begun_at_ = trainer.iteration();
  next_ = begun_at_ + kRetryIterations;
  stalled_before_s_ = trainer.checkpointer().stalled_s();
  begun_ = Clock::now();
  trainer.checkpointer().save_in_background([this] { is_committed_ = continuous_; },
                                            [this, out = trainer.out()] { remove_old(out); });
}

void Snapshot::remove_old(const std::filesystem::path& out) {
  try_to_write(has_failed_, [&] { remove_old_checkpoints(out, keep_); });
}

/// Collective: returns the iteration in which the next save begins. Rank 0's clock decides for all ranks.
std::int64_t Snapshot::next_after(Trainer& trainer) const {
  const auto steps = static_cast<double>(trainer.iteration() - begun_at_);
  const double stalled_s = trainer.checkpointer().stalled_s() - stalled_before_s_;
  const double trained_s = std::chrono::duration<double>(Clock::now() - begun_).count() - stalled_s;
  const double step_s = std::max(trained_s / steps, 1e-9);
  std::int64_t next = begun_at_ + static_cast<std::int64_t>(kTrainingPerStall * stalled_s / step_s) + 1;
  trainer.communicator().bcast(std::span(&next, 1));
  return next;
}

/// The last checkpoint is the result of the training, so a failure to save this checkpoint is an error.
void Snapshot::finalize(Trainer& trainer) {
  Checkpointer& checkpointer = trainer.checkpointer();
  if (!checkpointer.is_saved()) save(trainer);
  checkpointer.finish();
  if (!checkpointer.is_saved()) checkpointer.save(checkpoint_path(trainer.out(), trainer.iteration()));
  if (trainer.is_root()) remove_old(trainer.out());  // after a signal the trainer itself has saved
}

void BestSnapshot::initialize(Trainer& trainer) {
  monitor_.begin(*this, trainer);
  trainer.checkpointer().expect_saves();
  if (!best_ || !trainer.is_root()) return;
  try_to_write(has_failed_, [&] { restore_best(trainer.out(), *best_, trainer.iteration()); });
}

void BestSnapshot::run(Trainer& trainer) {
  const bool is_over = save_.expired();
  if (before_ && is_over) {  // the save has failed: the best saved report counts as the best again
    load_state(state());
  }
  if (!is_marked_ && is_over) mark(trainer.out());
  if (!monitor_.has_report()) return;
  const nlohmann::json before = state();
  if (monitor_.improved() != true) return;
  trainer.checkpointer().finish();  // waits for the save of the previous best checkpoint
  if (!before_) before_ = before.dump();
  best_ = trainer.iteration();
  // The trainer holds `save` in a callback, and deletes the callback when the save is over, even if the save has
  // failed. Therefore save_ expires when the save is over.
  const auto save = std::make_shared<bool>();
  save_ = save;
  trainer.checkpointer().save_in_background([this, save] { before_.reset(); },
                                            [this, out = trainer.out()] { mark(out); });
}

void BestSnapshot::finalize(Trainer& trainer) {
  trainer.checkpointer().finish();
  if (!is_marked_) mark(trainer.out());
}

/// Sets the link to the best checkpoint. Called on rank 0, perhaps on the thread that saves.
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

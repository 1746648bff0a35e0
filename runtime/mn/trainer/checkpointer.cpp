#include <mn/trainer/checkpointer.hpp>

#include <cassert>
#include <chrono>
#include <span>
#include <thread>

#include <c10/util/ScopeExit.h>

#include <mn/checkpoint/background_save.hpp>
#include <mn/checkpoint/format/checkpoint_folder.hpp>
#include <mn/comm/on_root.hpp>
#include <mn/core/activity.hpp>
#include <mn/core/error.hpp>
#include <mn/core/log.hpp>
#include <mn/trainer/output_folder.hpp>
#include <mn/trainer/run_status.hpp>
#include <mn/trainer/time_limit.hpp>
#include <mn/trainer/training_state.hpp>

namespace mn {
namespace {

namespace fs = std::filesystem;

/// Returns an object that, when destroyed, adds the seconds since this call to `sum`.
auto add_time(double& sum) {
  return c10::make_scope_exit([&sum, begin = std::chrono::steady_clock::now()] {
    sum += std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
  });
}

[[noreturn]] void throw_diverged(const fs::path& path, std::int64_t iteration, const std::string& why) {
  throw DataError("the checkpoint " + path.string() + " is not written, because " + why + " after iteration " +
                      std::to_string(iteration) +
                      ": training has diverged; resume from the one before with a lower learning rate, a longer "
                      "warm-up or clipping, and look for samples that are not numbers",
                  true);
}

void call_all(const std::vector<std::function<void()>>& functions) {
  for (const auto& each : functions) each();
}

}  // namespace

Checkpointer::Checkpointer(const TrainingParts& parts, Surroundings surroundings)
    : parts_(parts),
      surroundings_(std::move(surroundings)),
      state_(std::make_unique<TrainingState>(parts)),
      saving_(std::make_unique<BackgroundSave>()) {}

Checkpointer::~Checkpointer() = default;

std::int64_t Checkpointer::iteration() const noexcept { return parts_.counters.iteration; }

bool Checkpointer::is_root() const noexcept { return parts_.comm.rank() == 0; }

bool Checkpointer::is_saving() const noexcept { return saving_->is_under_way(); }

bool Checkpointer::is_saved() const noexcept { return saved_iteration_ == iteration(); }

bool Checkpointer::is_thread_busy() const noexcept { return (is_saving() || is_preparing_) && !saving_->is_ready(); }

void Checkpointer::note_resume(const fs::path& checkpoint) {
  std::int64_t continued = is_root() ? iteration_in(surroundings_.out, checkpoint).value_or(-1) : 0;
  parts_.comm.bcast(std::span(&continued, 1));
  is_from_elsewhere_ = continued < 0;
  continued_ = is_from_elsewhere_ ? std::nullopt : std::optional(continued);
  has_renamed_others_ = false;
}

void Checkpointer::begin_run() {
  if (is_saving()) return;  // the save of this iteration began before this call of run()
  saved_iteration_ = is_from_elsewhere_ ? kNotSaved : iteration();
}

void Checkpointer::log_other_runs() const {
  if (!expects_saves_ || !is_root() || continued_ || has_renamed_others_) return;
  try {
    const auto found = find_checkpoints(surroundings_.out);
    if (found.empty()) return;
    log_info(surroundings_.out.string() + " has checkpoints of another run, the newest " +
             found.front().filename().string() +
             ": this run does not continue it, and renames them when it writes its first");
  } catch (const DataError&) {
    // If the folder cannot be read, nothing is logged here, because the first save will throw the error.
  }
}

/// Collective. Invariant 3: before the checkpoint of iteration `next` is written, renames the checkpoints of other
/// runs.
void Checkpointer::rename_other_runs(std::int64_t next) {
  on_root<SaveError>(parts_.comm, [&] {
    if (has_renamed_others_) return;
    set_checkpoints_aside(surroundings_.out, continued_, next);
    has_renamed_others_ = true;
  });
}

void Checkpointer::prepare() {
  if (!std::exchange(expects_saves_, false) || is_saving()) return;
  saving_->prepare(parts_.comm, state_->tensors());
  is_preparing_ = true;
}

void Checkpointer::save(const fs::path& path) {
  finish();
  const ActivityScope activity("writing a checkpoint");
  double duration_s = 0;
  const bool is_in_folder = fs::absolute(path) == checkpoint_path(surroundings_.out, iteration());
  {
    const auto time = add_time(duration_s);
    check_held(surroundings_.folder, parts_.comm);
    surroundings_.finish_steps();
    if (is_in_folder) rename_other_runs(iteration());
    try {
      save_checkpoint(parts_.comm, path, state_->checkpoint());
    } catch (const SaveRefused& error) {
      throw_diverged(path, iteration(), error.what());
    }
  }
  if (surroundings_.time_limit != nullptr) surroundings_.time_limit->add_save(duration_s);
  if (!is_in_folder) return;
  saved_iteration_ = iteration();
  surroundings_.status->saved(iteration());
}

fs::path Checkpointer::save_to_requeue() {
  const fs::path path = checkpoint_path(surroundings_.out, iteration());
  // Invariant 3: renames the checkpoints of other runs even if nothing is saved here, because the requeued job will
  // resume from the newest checkpoint in the folder.
  rename_other_runs(is_saved() ? iteration() + 1 : iteration());
  if (!is_saved()) save(path);
  return path;
}

void Checkpointer::save_in_background(std::function<void()> committed, std::function<void()> root_committed) {
  if (!is_root() || !root_committed) root_committed = [] {};
  if (is_saving() && is_saved()) {  // invariant 1: a second request in the same iteration joins the save
    committed_.push_back(std::move(committed));
    root_committed_.push_back(std::move(root_committed));
    return;
  }
  finish();
  if (is_saved()) {
    root_committed();
    return committed();
  }
  begin(std::move(committed), std::move(root_committed));
}

void Checkpointer::begin(std::function<void()> committed, std::function<void()> root_committed) {
  const auto time = add_time(stalled_s_);
  const ActivityScope activity("beginning a checkpoint");
  assert(!is_saving() && committed_.empty() && root_committed_.empty());  // invariant 1: one save at a time
  check_held(surroundings_.folder, parts_.comm);
  surroundings_.finish_steps();
  try {
    rename_other_runs(iteration());
    saving_->begin(parts_.comm, checkpoint_path(surroundings_.out, iteration()), state_->checkpoint());
    is_preparing_ = false;
    saved_iteration_ = iteration();
    committed_.push_back(std::move(committed));
    root_committed_.push_back(std::move(root_committed));
  } catch (const SaveError& error) {
    warn(error);
  }
}

void Checkpointer::finish() {
  while (is_saving()) advance();
}

void Checkpointer::wait_for_thread() const {
  constexpr auto kStep = std::chrono::milliseconds(5);
  for (int i = 0; i < 200 && !saving_->is_ready(); ++i) std::this_thread::sleep_for(kStep);
}

void Checkpointer::advance() {
  is_preparing_ = false;
  if (!is_saving() || !advance_phase()) return;
  if (surroundings_.time_limit != nullptr) surroundings_.time_limit->add_save(saving_->save_s());
  root_committed_.clear();
  call_all(std::exchange(committed_, {}));
}

/// Begins the next phase of the save. Returns true if the save has ended, with or without a checkpoint.
bool Checkpointer::advance_phase() {
  const auto time = add_time(stalled_s_);
  const ActivityScope activity("committing a checkpoint");
  assert(saved_iteration_ != kNotSaved);
  try {
    if (!saving_->advance([all = root_committed_] { call_all(all); })) return false;
    surroundings_.status->saved(saved_iteration_);
  } catch (const SaveRefused& error) {
    const std::int64_t refused = std::exchange(saved_iteration_, kNotSaved);
    throw_diverged(checkpoint_path(surroundings_.out, refused), refused, error.what());
  } catch (const SaveError& error) {
    saved_iteration_ = kNotSaved;
    committed_.clear();
    warn(error);
  }
  return true;
}

/// Invariant 2: training goes on after a failed save, so the failure is only logged as a warning.
void Checkpointer::warn(const SaveError& error) const {
  const char* const outcome = surroundings_.is_run_over() ? "; the checkpoint before stays"
                                                          : "; training goes on, and the checkpoint before stays";
  if (is_root()) log_warning(error.what() + std::string(outcome));
}

}  // namespace mn

// The run of a Trainer: iterations until a limit, a signal or the job's end, and what the ranks agree on between them.
#include <algorithm>
#include <chrono>
#include <span>
#include <thread>

#include <mn/checkpoint/background_save.hpp>
#include <mn/checkpoint/format/checkpoint_folder.hpp>
#include <mn/comm/on_root.hpp>
#include <mn/core/activity.hpp>
#include <mn/core/error.hpp>
#include <mn/core/exit_codes.hpp>
#include <mn/core/log.hpp>
#include <mn/tensor/modules.hpp>
#include <mn/trainer/extension_list.hpp>
#include <mn/trainer/observation.hpp>
#include <mn/trainer/output_folder.hpp>
#include <mn/trainer/periodic_agreement.hpp>
#include <mn/trainer/run_status.hpp>
#include <mn/trainer/signals.hpp>
#include <mn/trainer/straggler_watch.hpp>
#include <mn/trainer/time_limit.hpp>
#include <mn/trainer/trainer.hpp>

namespace mn {
namespace {

// Why a run ends before its time, beside the numbers of signals.
constexpr std::int64_t kNoReason = 0;
constexpr std::int64_t kTimeLimit = 1000;

}  // namespace

int Trainer::run() {
  const auto signal = std::make_shared<SignalFlag>(options_.checkpoint_on_signal);
  signal_ = signal;
  begin();
  note_iteration(iteration_);  // outside the scope: this run has not made a step
  const ActivityScope activity("training");
  if (extensions_->any_pending()) run_extensions();  // of the iteration in which the checkpoint was written
  while (!finished() && reason_ == kNoReason) {
    advance();
    note_iteration(iteration_);
    prepare_saves();  // optimizers have their state now
    status_->stepped(iteration_);
    reason_ = agree(own_reason());
    extensions_->find_due({iteration_, previous_epoch_detail_, epoch_detail()});
    run_extensions();
  }
  if (reason_ != kNoReason) signal->keep();
  synchronize();
  check_held(folder_.get(), *comm_);
  const bool requeue = reason_ != kNoReason && (!finished() || extensions_->any_pending());
  finish_save();
  if (requeue) checkpoint_to_requeue();
  extensions_->finalize(*this);
  finish_save();
  comm_->barrier();  // every file of rank 0 is complete
  return requeue ? kExitRequeue : 0;
}

/// In the iteration that ends training, the part of it that no report has yet is reported too. A checkpoint still holds
/// that part as observed: a run that continues from there reports it with the rest of its period.
void Trainer::run_extensions() {
  const Progress progress{iteration_, previous_epoch_detail_, epoch_detail()};
  const auto may = [this](Duration duration) { return may_begin(duration); };
  bool is_complete = false;
  for (const auto part : {ExtensionList::Part::kReporting, ExtensionList::Part::kReading}) {
    if (!extensions_->run_pending(*this, progress, part, may)) return;
    if (!finished() || std::exchange(is_complete, true)) continue;
    wait_for_losses();
    const auto rest = std::make_shared<const Observation>(*observation_);
    rest_ = rest;
    extensions_->run_at_end(*this, progress, may);
  }
}

/// Why this rank wants the run to end: a signal, or the time limit.
std::int64_t Trainer::own_reason() {
  const auto flag = signal_.lock();
  const std::int64_t signal = flag ? flag->raised() : kNoReason;
  if (!time_limit_) return signal;
  time_limit_->tick();
  return time_limit_->is_near() ? kTimeLimit : signal;
}

bool Trainer::may_begin(Duration duration) {
  if (duration != Duration::kShort && reason_ != kNoReason) return false;
  if (duration == Duration::kLong) finish_save();
  finish_copy();  // of a save that an extension before it has begun
  return true;
}

std::function<void(bool)> Trainer::pauses() {
  return [this, agreement = PeriodicAgreement(), parts = std::int64_t{0}](bool is_done) mutable {
    const bool is_first = parts == 0;
    if (is_first) agreement.begin(0);
    // What is asked for here is the same on every rank. A save is committed in two steps: if it is quick, both come
    // before the first part, which may be the only one.
    for (int step = 0; options_.checkpoint_on_signal || is_saving(); ++step) {
      if (!is_done && !agreement.is_due(parts) && !(is_first && is_saving() && step < 2)) break;
      if (is_first && is_saving()) wait_for_writer();
      if (agree_on_parts(agreement, parts, is_done)) break;
    }
    ++parts;
  };
}

/// Whether all ranks are done. One that is waits here for the others' next exchange.
bool Trainer::agree_on_parts(PeriodicAgreement& agreement, std::int64_t parts, bool is_done) {
  std::vector<std::int64_t> flags = {own_reason(), is_saving() && !saving_->is_ready() ? 1 : 0, is_done ? 0 : 1};
  agreement.exchange(flags, parts, *comm_);
  if (is_saving() && flags[1] == 0) advance_save();
  reason_ = flags[0];
  const bool all_done = flags[2] == 0;
  if (reason_ != kNoReason && !all_done) throw Interrupted();
  return all_done;
}

/// For a second at most.
void Trainer::wait_for_writer() const {
  constexpr auto kStep = std::chrono::milliseconds(5);
  for (int i = 0; i < 200 && !saving_->is_ready(); ++i) std::this_thread::sleep_for(kStep);
}

void Trainer::checkpoint_to_requeue() {
  const std::filesystem::path path = checkpoint_path(out(), iteration_);
  const std::int64_t next = is_saved() ? iteration_ + 1 : iteration_;  // a checkpoint that is there stays
  on_root<SaveError>(*comm_, [&] { set_others_aside(next); });         // also where this run has saved nothing
  if (!is_saved()) save(path);
  const std::string who = reason_ == kTimeLimit ? "the job's time limit" : signal_name(static_cast<int>(reason_));
  stop_reason_ = who + " asked for it, after a checkpoint";
  if (is_root()) log_info(who + " asked for the end: checkpointed in " + path.string() + ", requeue the job");
}

void Trainer::begin() {
  start_ = Clock::now();
  stopped_ = false;
  reason_ = kNoReason;
  stop_reason_.clear();
  saved_iteration_ = is_from_elsewhere_ ? kNotSaved : iteration_;
  observation_->begin(iteration_, bytes_sent());
  if (!is_training(*model_)) set_training(*model_, true);
  extensions_->initialize(*this);
  if (expects_saves_ && is_root()) tell_of_others();
  agreement_->begin(iteration_);
  *stragglers_ = StragglerWatch(comm_->size());
  status_->began(iteration_);
}

/// On rank 0, before the run's first checkpoint in out(), which is of iteration `next`.
void Trainer::set_others_aside(std::int64_t next) {
  if (has_set_aside_) return;
  set_checkpoints_aside(out(), continued_, next);
  has_set_aside_ = true;
}

/// Who has forgotten --resume is to know it before the first checkpoint.
void Trainer::tell_of_others() const {
  if (continued_ || has_set_aside_) return;
  try {
    const auto found = find_checkpoints(out());
    if (found.empty()) return;
    log_info(out().string() + " has checkpoints of another run, the newest " + found.front().filename().string() +
             ": this run does not continue it, and renames them when it writes its first");
  } catch (const DataError&) {
    // The first save says it.
  }
}

/// Ranks exchange what only one of them knows: why to stop, which periods of seconds are over by rank 0's clock, how
/// fast the slowest and the fastest are, and whether all threads are through with their parts of a save, which then
/// goes on, or with the memory for saves. Returns why training is to stop on all ranks.
std::int64_t Trainer::agree(std::int64_t own) {
  const bool has_writer = is_saving() || is_preparing_saves_;
  const bool needed = options_.checkpoint_on_signal || extensions_->any_by_seconds() || has_writer || comm_->size() > 1;
  if (!needed || !agreement_->is_due(iteration_)) return kNoReason;
  std::vector<std::int64_t> flags = extensions_->due();
  const std::size_t count = flags.size();
  if (!is_root()) flags.assign(count, 0);
  flags.push_back(has_writer && !saving_->is_ready() ? 1 : 0);
  stragglers_->append_to(flags);
  flags.push_back(own);
  agreement_->exchange(flags, iteration_, *comm_);
  if (flags[count] == 0) {
    is_preparing_saves_ = false;
    if (is_saving()) advance_save();
  }
  stragglers_->judge(std::span(flags).subspan(count + 1, StragglerWatch::kNumbers), *comm_);
  extensions_->set_due(std::span(flags).first(count));
  return flags.back();
}

void Trainer::stop(const std::string& why) {
  if (std::exchange(stopped_, true)) return;
  stop_reason_ = why;
  if (is_root()) {
    log_info("training ends after iteration " + std::to_string(iteration_) + ": " + why);
  }
}

std::string Trainer::end_reason() const {
  if (!stop_reason_.empty()) return stop_reason_;
  if (options_.epochs > 0 && epoch_ >= options_.epochs) return std::to_string(epoch_) + " epochs are over";
  if (options_.iterations > 0 && iteration_ >= options_.iterations) {
    return std::to_string(iteration_) + " iterations are over";
  }
  return "";
}

bool Trainer::finished() const noexcept {
  return stopped_ || (options_.epochs > 0 && epoch_ >= options_.epochs) ||
         (options_.iterations > 0 && iteration_ >= options_.iterations);
}

}  // namespace mn

// The loop of a Trainer, and when training ends: at a limit, by stop(), at a signal, or at the job's time limit. In the
// last two cases, all ranks write a checkpoint in the same iteration (Trainer::agree()).
#include <mn/trainer/trainer.hpp>

#include <algorithm>
#include <chrono>
#include <span>
#include <utility>

#include <mn/core/activity.hpp>
#include <mn/core/error.hpp>
#include <mn/core/exit_codes.hpp>
#include <mn/core/log.hpp>
#include <mn/core/trace.hpp>
#include <mn/sharding/shard_pass.hpp>
#include <mn/tensor/device_times.hpp>
#include <mn/tensor/modules.hpp>
#include <mn/trainer/extension_list.hpp>
#include <mn/trainer/observation.hpp>
#include <mn/trainer/output_folder.hpp>
#include <mn/trainer/periodic_agreement.hpp>
#include <mn/trainer/run_status.hpp>
#include <mn/trainer/signals.hpp>
#include <mn/trainer/straggler_watch.hpp>
#include <mn/trainer/time_limit.hpp>
#include <mn/trainer/training_step.hpp>

namespace mn {
namespace {

double seconds_since(std::chrono::steady_clock::time_point begin) {
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
}

void add_to(StepTimes& sum, const StepTimes& step) {
  sum.data_s += step.data_s;
  sum.compute_s += step.compute_s;
  sum.communication_s += step.communication_s;
  sum.bytes += step.bytes;
}

}  // namespace

int Trainer::run() {
  const auto signal = std::make_shared<SignalFlag>(options_.checkpoint_on_signal);
  signal_ = signal;
  begin_run();
  note_iteration(iteration());  // before the ActivityScope, because this run has made no step yet
  const ActivityScope activity("training");
  if (extensions_->any_pending()) run_extensions();  // extensions due in the iteration of the checkpoint
  while (!is_over() && end_reason_ == kNoReason) {
    advance();
    note_iteration(iteration());
    checkpointer_->prepare();  // after the first iteration, when optimizers have a state
    status_->stepped(iteration());
    end_reason_ = agree(own_end_reason());
    extensions_->find_due({iteration(), previous_epoch_detail_, epoch_detail()});
    run_extensions();
  }
  if (end_reason_ != kNoReason) signal->keep();
  synchronize();
  check_held(folder_.get(), *comm_);
  const bool requeue = end_reason_ != kNoReason && (!is_over() || extensions_->any_pending());
  checkpointer_->finish();
  if (requeue) checkpoint_to_requeue();
  extensions_->finalize(*this);
  checkpointer_->finish();
  comm_->barrier();  // waits until rank 0 has written every file
  return requeue ? kExitRequeue : 0;
}

void Trainer::begin_run() {
  parts_->counters.start = Clock::now();
  is_stopped_ = false;
  end_reason_ = kNoReason;
  end_text_.clear();
  checkpointer_->begin_run();
  observation_->begin(iteration(), parts_->bytes_sent());
  if (!is_training(*model_)) set_training(*model_, true);
  extensions_->initialize(*this);
  checkpointer_->log_other_runs();
  agreement_->begin(iteration());
  *stragglers_ = StragglerWatch(comm_->size());
  status_->began(iteration());
}

void Trainer::advance() {
  const auto begin = Clock::now();
  const double waited_before = work_ ? 0 : communication_s();
  const std::uint64_t bytes_before = parts_->bytes_sent();
  last_step_.data_s = 0;
  step_->run();
  TrainingCounters& counters = parts_->counters;
  ++counters.iteration;
  previous_epoch_detail_ = std::exchange(counters.epoch_detail, iterator_->epoch_detail());
  if (counters.epoch_detail >= static_cast<double>(counters.epoch + 1)) end_epoch();
  if (work_) work_->end();
  const double step_s = seconds_since(begin);
  last_step_.communication_s = work_ ? 0 : communication_s() - waited_before;
  last_step_.compute_s = step_s - last_step_.data_s - last_step_.communication_s;
  last_step_.bytes = parts_->bytes_sent() - bytes_before;
  add_to(all_steps_, last_step_);
  observation_->add_time(step_s);
  // The host's times include the device's work only if the host waits for the device in each step.
  if (comm_->device().type == DeviceType::kCpu || options_.trace) {
    stragglers_->add(last_step_.data_s, last_step_.compute_s);
  }
}

Batch Trainer::next_batch() {
  const Trace::Scope scope(options_.trace.get(), "wait for data", Trace::Lane::kData);
  // A separate activity, because the first minibatch, and the program's own loader, may take long.
  const ActivityScope activity("waiting for a minibatch");
  const auto begin = Clock::now();
  if (work_) work_->end();
  std::optional<Batch> batch = iterator_->next();
  if (work_) work_->begin();
  last_step_.data_s += seconds_since(begin);
  if (!batch) {
    throw DataError("epoch " + std::to_string(epoch() + 1) + " of training has no minibatch left after " +
                        std::to_string(epoch_detail()) + " epochs: the dataset is empty or shorter than it says",
                    true);
  }
  return *std::move(batch);
}

void Trainer::end_epoch() {
  ++parts_->counters.epoch;
  if (iterator_->next()) {
    throw Error("the training iterator continues after the end of epoch " + std::to_string(epoch()));
  }
  synchronize();
}

void Trainer::synchronize() {
  for (const auto& [name, optimizer] : optimizers_) optimizer->synchronize();
}

void Trainer::finish_steps() {
  synchronize();
  wait_for_losses();
}

/// The host waits here until the device has computed the losses. The wait counts as training time.
void Trainer::wait_for_losses() {
  const auto begin = Clock::now();
  observation_->read();
  observation_->add_time(seconds_since(begin));
}

double Trainer::communication_s() const {
  double sum = 0;
  for (const auto& [name, optimizer] : optimizers_) sum += optimizer->communication_s();
  return sum;
}

StepTimes Trainer::times() const {
  StepTimes all = all_steps_;
  if (work_) {
    all.communication_s = communication_s();
    all.compute_s = std::max(0.0, work_->seconds() - all.communication_s);
  }
  return all;
}

ExtensionTimes Trainer::extension_times() const { return extensions_->times(); }

/// In the last iteration, extensions also report what they have seen since their last run(). Checkpoints still hold
/// these observations, because a later run that continues the training reports the whole period.
void Trainer::run_extensions() {
  const Progress progress{iteration(), previous_epoch_detail_, epoch_detail()};
  const auto may_begin = [this](Duration duration) {
    if (duration != Duration::kShort && end_reason_ != kNoReason) return false;
    if (duration == Duration::kLong) checkpointer_->finish();
    return true;
  };
  bool is_complete = false;
  for (const auto part : {ExtensionList::Part::kReporting, ExtensionList::Part::kReading}) {
    if (!extensions_->run_pending(*this, progress, part, may_begin)) return;
    if (!is_over() || std::exchange(is_complete, true)) continue;
    wait_for_losses();
    const auto rest = std::make_shared<const Observation>(*observation_);
    rest_ = rest;
    extensions_->run_at_end(*this, progress);
  }
}

/// Collective. The ranks exchange why to stop, which triggers in seconds are due, their times, and whether a thread is
/// busy with a save. Returns why training stops, or kNoReason.
std::int64_t Trainer::agree(std::int64_t own_reason) {
  const bool has_threads = checkpointer_->is_saving() || checkpointer_->is_preparing();
  const bool needed =
      options_.checkpoint_on_signal || extensions_->any_by_seconds() || has_threads || comm_->size() > 1;
  if (!needed || !agreement_->is_due(iteration())) return kNoReason;
  std::vector<std::int64_t> flags = extensions_->due();
  const std::size_t count = flags.size();
  if (!is_root()) flags.assign(count, 0);
  flags.push_back(checkpointer_->is_thread_busy() ? 1 : 0);
  stragglers_->append_to(flags);
  flags.push_back(own_reason);
  agreement_->exchange(flags, iteration(), *comm_);
  if (flags[count] == 0) checkpointer_->advance();
  stragglers_->judge(std::span(flags).subspan(count + 1, StragglerWatch::kNumbers), *comm_);
  extensions_->set_due(std::span(flags).first(count));
  return flags.back();
}

std::function<void(bool)> Trainer::pauses() {
  return [this, agreement = PeriodicAgreement(), parts = std::int64_t{0}](bool is_done) mutable {
    const bool is_first = parts == 0;
    if (is_first) agreement.begin(0);
    const auto is_saving = [this] { return checkpointer_->is_saving(); };
    // The condition of this loop is equal on all ranks. A save needs two exchanges to end. A quick save makes both
    // exchanges before the first part, because there may be no second part.
    for (int exchanges = 0; options_.checkpoint_on_signal || is_saving(); ++exchanges) {
      if (!is_done && !agreement.is_due(parts) && !(is_first && is_saving() && exchanges < 2)) break;
      if (is_first && is_saving()) checkpointer_->wait_for_thread();
      if (agree_on_parts(agreement, parts, is_done)) break;
    }
    ++parts;
  };
}

/// Collective: true if all ranks have done their parts. A rank without further parts waits here for the next exchange.
bool Trainer::agree_on_parts(PeriodicAgreement& agreement, std::int64_t parts, bool is_done) {
  std::vector<std::int64_t> flags = {own_end_reason(), checkpointer_->is_thread_busy() ? 1 : 0, is_done ? 0 : 1};
  join_shard_passes();  // a rank without samples is here while other ranks gather parameters
  agreement.exchange(flags, parts, *comm_);
  if (flags[1] == 0) checkpointer_->advance();
  end_reason_ = flags[0];
  const bool all_done = flags[2] == 0;
  if (end_reason_ != kNoReason && !all_done) throw Interrupted();
  return all_done;
}

/// Returns why this rank wants the run to end: the number of a signal, or kTimeLimit. Returns kNoReason if it does not.
std::int64_t Trainer::own_end_reason() {
  const auto flag = signal_.lock();
  const std::int64_t signal = flag ? flag->raised() : kNoReason;
  if (!time_limit_) return signal;
  time_limit_->tick();
  return time_limit_->is_near() ? kTimeLimit : signal;
}

std::optional<double> Trainer::time_left_s() const {
  const auto left_s = time_limit_ ? time_limit_->left_s() : std::nullopt;
  return left_s ? std::optional(*left_s - time_limit_->needed_s()) : std::nullopt;
}

void Trainer::checkpoint_to_requeue() {
  const std::filesystem::path path = checkpointer_->save_to_requeue();
  const std::string who =
      end_reason_ == kTimeLimit ? "the job's time limit" : signal_name(static_cast<int>(end_reason_));
  end_text_ = who + " asked for it, after a checkpoint";
  if (is_root()) log_info(who + " asked for the end: checkpointed in " + path.string() + ", requeue the job");
}

void Trainer::stop(const std::string& why) {
  if (std::exchange(is_stopped_, true)) return;
  end_text_ = why;
  if (is_root()) log_info("training ends after iteration " + std::to_string(iteration()) + ": " + why);
}

std::string Trainer::end_reason() const {
  if (!end_text_.empty()) return end_text_;
  if (options_.epochs > 0 && epoch() >= options_.epochs) return std::to_string(epoch()) + " epochs are over";
  if (options_.iterations > 0 && iteration() >= options_.iterations) {
    return std::to_string(iteration()) + " iterations are over";
  }
  return "";
}

bool Trainer::is_over() const noexcept {
  return is_stopped_ || (options_.epochs > 0 && epoch() >= options_.epochs) ||
         (options_.iterations > 0 && iteration() >= options_.iterations);
}

}  // namespace mn

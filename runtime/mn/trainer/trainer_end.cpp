// Training ends at a limit, by stop(), at a signal or at the job's time limit. A signal to any rank, or the time limit,
// makes all ranks write a checkpoint in the same iteration (Trainer::agree()).
#include <mn/trainer/trainer.hpp>

#include <utility>

#include <mn/core/log.hpp>
#include <mn/trainer/signals.hpp>
#include <mn/trainer/time_limit.hpp>

namespace mn {

/// Returns why this rank wants the run to end: a signal's number, kTimeLimit, or kNoReason.
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

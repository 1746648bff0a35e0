#include <mn/trainer/time_limit.hpp>

#include <algorithm>
#include <memory>
#include <string>
#include <system_error>
#include <thread>

#include <mn/core/blocked_signals.hpp>
#include <mn/core/classic_stream.hpp>
#include <mn/core/command_output.hpp>
#include <mn/core/environment.hpp>
#include <mn/core/log.hpp>
#include <mn/core/text.hpp>
#include <mn/core/unix_time.hpp>

namespace mn {
namespace {

using std::chrono::seconds;

constexpr double kReserve_s = 10;             // time to end the processes, and for differences between clocks
constexpr double kGuessBytesPerSecond = 1e8;  // assumed speed of a busy file server
constexpr std::int64_t kMaxPart = 1'000'000;  // larger numbers of days, hours, … are not valid
constexpr std::int64_t kMaxLeft_s = 10LL * 365 * 86400;
constexpr double kAskAhead_s = 60;  // time for squeue to answer, and for a person to extend the job
constexpr seconds kAskEvery(20);

std::optional<std::int64_t> time_left_of_squeue() {
  const auto job = environment("SLURM_JOB_ID");
  if (!job || job->find_first_not_of("0123456789") != std::string::npos) return std::nullopt;
  // squeue prints several lines if the job is a job array or a heterogeneous job. Only the line of this job counts.
  InText lines(command_output({"squeue", "--noheader", "--jobs=" + *job, "--format=%A %L"}, seconds(5)));
  for (std::string id, left; lines >> id >> left;) {
    if (id == *job) return parse_time_left(left);
  }
  return std::nullopt;
}

/// A time that has passed belongs to an earlier job, or the job was extended; then there is no value.
std::optional<std::int64_t> time_left_of(const char* name) {
  const auto end = environment_int(name);
  if (!end) return std::nullopt;
  const std::int64_t left_s = *end - static_cast<std::int64_t>(unix_time());
  if (left_s > 0) return left_s;
  log_warning(std::string(name) + " ignored: that time was over " + std::to_string(-left_s) + " s ago");
  return std::nullopt;
}

}  // namespace

std::optional<std::int64_t> parse_time_left(std::string_view text) {
  if (text == "UNLIMITED") return kMaxLeft_s;
  const auto add = [](std::int64_t& sum, std::string_view part) {
    const auto number = parse_number<std::int64_t>(part);
    sum = 60 * sum + number.value_or(0);
    return number && *number >= 0 && *number <= kMaxPart;
  };
  std::int64_t days = 0, seconds = 0;
  if (const auto dash = text.find('-'); dash != std::string_view::npos) {
    if (!add(days, text.substr(0, dash))) return std::nullopt;
    text.remove_prefix(dash + 1);
  }
  const auto parts = split(text, ':');
  const bool is_valid = parts.size() <= 3 && std::ranges::all_of(parts, [&](auto part) { return add(seconds, part); });
  return is_valid ? std::optional(days * 86400 + seconds) : std::nullopt;
}

TimeLimit::TimeLimit(std::uint64_t checkpoint_bytes)
    : save_s_(static_cast<double>(checkpoint_bytes) / kGuessBytesPerSecond) {
  const auto now = Clock::now();
  auto left_s = time_left_of("MN_END_TIME");
  is_slurms_ = !left_s;
  if (!left_s) left_s = time_left_of("SLURM_JOB_END_TIME");
  if (!left_s) left_s = time_left_of_squeue();
  if (left_s) set_left(*left_s, now);
}

void TimeLimit::set_left(std::int64_t seconds, Clock::time_point now) {
  end_ = now + std::chrono::seconds(std::clamp<std::int64_t>(seconds, 0, kMaxLeft_s));
}

void TimeLimit::add_save(double seconds) {
  save_s_ = save_is_measured_ ? std::max(save_s_, seconds) : seconds;
  save_is_measured_ = true;
}

void TimeLimit::tick() {
  const auto now = Clock::now();
  if (last_tick_) longest_tick_s_ = std::max(longest_tick_s_, std::chrono::duration<double>(now - *last_tick_).count());
  last_tick_ = now;
  if (!is_slurms_ || !end_) return;
  take_answer();
  // squeue is asked early by one period between ticks, because only the next tick reads the answer.
  const bool is_time = *left_s() <= needed_s() + longest_tick_s_ + kAskAhead_s;
  if (is_time && !answer_.valid() && (!asked_ || now - *asked_ >= kAskEvery)) ask_squeue();
}

/// Asks squeue when the job ends. A new thread does so, which may outlive this object.
void TimeLimit::ask_squeue() {
  asked_ = Clock::now();
  auto answer = std::make_shared<std::promise<std::optional<std::int64_t>>>();
  answer_ = answer->get_future();
  const BlockedSignals blocked;
  try {
    std::thread([answer] { answer->set_value(time_left_of_squeue()); }).detach();
  } catch (const std::system_error&) {
    answer_ = {};  // no thread could be started: the end known so far stays
  }
}

void TimeLimit::take_answer() {
  if (!answer_.valid() || answer_.wait_for(seconds(0)) != std::future_status::ready) return;
  if (const auto left_s = answer_.get()) set_left(*left_s, *asked_);
}

double TimeLimit::needed_s() const { return kReserve_s + 2 * save_s_ + longest_tick_s_; }

std::optional<double> TimeLimit::left_s() const {
  if (!end_) return std::nullopt;
  return std::chrono::duration<double>(*end_ - Clock::now()).count();
}

}  // namespace mn

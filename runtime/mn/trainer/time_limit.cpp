#include <algorithm>
#include <array>
#include <charconv>
#include <cstdio>
#include <memory>
#include <string>

#include <mn/core/environment.hpp>
#include <mn/core/unix_time.hpp>
#include <mn/trainer/time_limit.hpp>

namespace mn {
namespace {

constexpr double kReserve_s = 10;             // for the end of the processes, and the clocks' difference
constexpr double kGuessBytesPerSecond = 1e8;  // a busy file server's
constexpr std::int64_t kMaxPart = 1'000'000;  // days, hours, … in a text that means something
constexpr std::int64_t kMaxLeft_s = 10LL * 365 * 86400;

std::optional<std::int64_t> time_left_of_squeue() {
  const auto job = environment("SLURM_JOB_ID");
  if (!job || job->find_first_not_of("0123456789") != std::string::npos) return std::nullopt;
  const std::string command = "timeout 5 squeue --noheader --jobs=" + *job + " --format=%L 2>/dev/null </dev/null";
  const std::unique_ptr<FILE, int (*)(FILE*)> pipe(popen(command.c_str(), "re"), &pclose);
  std::array<char, 64> line{};
  if (!pipe || std::fgets(line.data(), line.size(), pipe.get()) == nullptr) return std::nullopt;
  const std::string_view text(line.data());
  return parse_time_left(text.substr(0, text.find_last_not_of(" \n") + 1));
}

}  // namespace

std::optional<std::int64_t> parse_time_left(std::string_view text) {
  std::int64_t days = 0, seconds = 0;
  if (const auto dash = text.find('-'); dash != std::string_view::npos) {
    const auto parsed = std::from_chars(text.data(), text.data() + dash, days);
    if (parsed.ec != std::errc() || parsed.ptr != text.data() + dash) return std::nullopt;
    text.remove_prefix(dash + 1);
  }
  while (true) {
    std::int64_t part = 0;
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), part);
    if (error != std::errc() || part < 0 || part > kMaxPart || days < 0 || days > kMaxPart) return std::nullopt;
    seconds = seconds * 60 + part;
    text.remove_prefix(static_cast<std::size_t>(end - text.data()));
    if (text.empty()) return days * 86400 + seconds;
    if (text.front() != ':' || seconds > kMaxPart * 60) return std::nullopt;
    text.remove_prefix(1);
  }
}

TimeLimit::TimeLimit(std::uint64_t checkpoint_bytes)
    : save_s_(static_cast<double>(checkpoint_bytes) / kGuessBytesPerSecond) {
  auto end = environment_int("MN_END_TIME");
  if (!end) end = environment_int("SLURM_JOB_END_TIME");
  const auto left_s = end ? std::optional(*end - static_cast<std::int64_t>(unix_time())) : time_left_of_squeue();
  if (left_s) end_ = Clock::now() + std::chrono::seconds(std::clamp<std::int64_t>(*left_s, 0, kMaxLeft_s));
}

void TimeLimit::add_save(double seconds) {
  save_s_ = save_is_measured_ ? std::max(save_s_, seconds) : seconds;
  save_is_measured_ = true;
}

void TimeLimit::tick() {
  const auto now = Clock::now();
  if (last_tick_) longest_tick_s_ = std::max(longest_tick_s_, std::chrono::duration<double>(now - *last_tick_).count());
  last_tick_ = now;
}

bool TimeLimit::is_near() const { return end_ && *left_s() <= kReserve_s + 2 * save_s_ + longest_tick_s_; }

std::optional<double> TimeLimit::left_s() const {
  if (!end_) return std::nullopt;
  return std::chrono::duration<double>(*end_ - Clock::now()).count();
}

}  // namespace mn

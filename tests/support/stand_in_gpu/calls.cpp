#include "tests/support/stand_in_gpu/calls.hpp"

#include <cstdlib>
#include <fstream>
#include <map>
#include <mutex>

#include <unistd.h>

#include <mn/core/environment.hpp>
#include <mn/core/error.hpp>
#include <mn/core/launcher_variables.hpp>

namespace mn::stand_in {
namespace {

std::int64_t number(const char* variable, std::int64_t otherwise) {
  return environment_int(variable).value_or(otherwise);
}

Settings read_settings() {
  Settings read;
  read.rank = rank_of_environment(environment).value_or(0);
  read.gpus = static_cast<int>(number("STAND_IN_GPUS", read.gpus));
  read.seed = static_cast<std::uint64_t>(number("STAND_IN_SEED", 1));
  read.delay = std::chrono::microseconds(number("STAND_IN_DELAY_US", read.delay.count()));
  read.tells_loss = environment("STAND_IN_LOSS") == "error";
  read.patience = std::chrono::seconds(number("STAND_IN_PATIENCE_S", read.patience.count()));
  return read;
}

struct Calls {
  std::mutex mutex;
  std::map<std::string, long, std::less<>> made;
  std::string failing;
  long failing_at = 0;
};

void write_calls();

Calls* read_calls() {
  auto* calls = new Calls;
  if (environment("STAND_IN_CALLS")) std::atexit(write_calls);
  const std::string wish = environment("STAND_IN_FAIL").value_or("");
  if (wish.empty() || settings().rank != number("STAND_IN_FAIL_RANK", 0)) return calls;
  const std::size_t colon = wish.find(':');
  calls->failing = wish.substr(0, colon);
  calls->failing_at = colon == std::string::npos ? 1 : std::atol(wish.c_str() + colon + 1);
  if (calls->failing_at < 1) throw UsageError("STAND_IN_FAIL is \"" + wish + "\": use CALL:N, N from 1");
  return calls;
}

/// Never destroyed: streams are at work until the process is gone.
Calls& calls() {
  static Calls* const all = read_calls();
  return *all;
}

void write_calls() {
  std::ofstream file(*environment("STAND_IN_CALLS") + "." + std::to_string(settings().rank));
  const std::lock_guard lock(calls().mutex);
  for (const auto& [call, times] : calls().made) file << call << ' ' << times << '\n';
}

}  // namespace

const Settings& settings() {
  static const Settings read = read_settings();
  return read;
}

bool must_fail(std::string_view call) {
  const std::lock_guard lock(calls().mutex);
  auto found = calls().made.find(call);
  if (found == calls().made.end()) found = calls().made.emplace(call, 0).first;
  ++found->second;
  return call == calls().failing && found->second == calls().failing_at;
}

long calls_of(std::string_view call) {
  const std::lock_guard lock(calls().mutex);
  const auto found = calls().made.find(call);
  return found == calls().made.end() ? 0 : found->second;
}

void fail_call(std::string_view call, long number) {
  const std::lock_guard lock(calls().mutex);
  const auto found = calls().made.find(call);
  calls().failing = call;
  calls().failing_at = number + (found == calls().made.end() ? 0 : found->second);
}

void complain(const std::string& what) {
  const std::string line = "stand-in GPU: rank " + std::to_string(settings().rank) + ": " + what + "\n";
  [[maybe_unused]] const auto written = write(STDERR_FILENO, line.data(), line.size());
}

}  // namespace mn::stand_in

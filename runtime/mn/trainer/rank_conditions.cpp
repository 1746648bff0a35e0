#include <mn/trainer/rank_conditions.hpp>

#include <algorithm>
#include <array>
#include <chrono>
#include <cstdio>
#include <fstream>

#include <sched.h>
#include <sys/resource.h>
#include <unistd.h>

#include <mn/core/classic_stream.hpp>
#include <mn/core/cpus.hpp>
#include <mn/core/json.hpp>
#include <mn/core/slow_rank.hpp>

namespace mn {
namespace {

using nlohmann::json;

constexpr int kMaxZones = 16;

double number_in_file(const std::string& path) {
  double number = 0;
  InFile(path) >> number;
  return number;
}

double seconds_of(const timeval& time) {
  return static_cast<double>(time.tv_sec) + static_cast<double>(time.tv_usec) * 1e-6;
}

void read_own_usage(RankConditions& now) {
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  now.own_cpu_s = seconds_of(usage.ru_utime) + seconds_of(usage.ru_stime);
  now.major_faults = static_cast<double>(usage.ru_majflt);
  now.minor_faults = static_cast<double>(usage.ru_minflt);
  now.involuntary_switches = static_cast<double>(usage.ru_nivcsw);
  now.queue_s = queue_seconds();
}

/// Reads the lines "cpuN user nice system idle iowait irq softirq steal …" of /proc/stat for the CPUs of the process.
void read_cpus(RankConditions& now) {
  const std::vector<int> own = usable_cpus();
  const double tick_s = 1.0 / static_cast<double>(sysconf(_SC_CLK_TCK));
  std::ifstream file("/proc/stat");
  for (std::string line; std::getline(file, line) && line.starts_with("cpu");) {
    InText words(line.substr(3));
    int cpu = -1;
    std::array<double, 8> ticks{};
    if (line[3] == ' ' || !(words >> cpu) || !std::ranges::binary_search(own, cpu)) continue;
    for (double& each : ticks) words >> each;
    now.busy_cpu_s += (ticks[0] + ticks[1] + ticks[2] + ticks[5] + ticks[6]) * tick_s;
    now.io_wait_s += ticks[4] * tick_s;
    now.stolen_cpu_s += ticks[7] * tick_s;
  }
}

void read_heat(RankConditions& now) {
  const std::string cpu = "/sys/devices/system/cpu/cpu" + std::to_string(std::max(sched_getcpu(), 0));
  now.clock_ghz = number_in_file(cpu + "/cpufreq/scaling_cur_freq") * 1e-6;
  now.throttled = number_in_file(cpu + "/thermal_throttle/core_throttle_count");
  for (int zone = 0; zone < kMaxZones; ++zone) {
    const std::string path = "/sys/class/thermal/thermal_zone" + std::to_string(zone) + "/temp";
    now.temperature = std::max(now.temperature, number_in_file(path) * 1e-3);
  }
}

/// `text` is logged if the slow rank's number exceeds the others' by min_difference, and is min_ratio times as large.
struct Comparison {
  const char* name;
  const char* text;  ///< format for printf: the slow rank's number, then the others' number
  double min_difference;
  double min_ratio;
};
constexpr std::array kComparisons = {
    Comparison{"data_ms", "waited %.1f ms a step for minibatches (others %.1f)", 1, 1.5},
    Comparison{"queue_percent", "waited for a CPU %.0f %% of the time (others %.0f %%)", 5, 1.3},
    Comparison{"other_cpus", "%.1f CPUs' time of its CPUs went to other processes (others %.1f)", 0.2, 1.3},
    Comparison{"stolen_percent", "a hypervisor took %.0f %% of its CPUs (others %.0f %%)", 3, 1.3},
    Comparison{"io_wait_percent", "its CPUs waited for storage %.0f %% of the time (others %.0f %%)", 5, 1.5},
    Comparison{"major_faults", "%.0f page faults a second read from storage (others %.0f)", 10, 2},
    Comparison{"minor_faults", "%.0f page faults a second (others %.0f)", 1000, 2},
    Comparison{"involuntary_switches", "%.0f involuntary switches a second (others %.0f)", 20, 2},
    Comparison{"throttled", "heat slowed its CPU down %.0f times (others %.0f)", 1, 1.3},
    Comparison{"temperature", "%.0f °C (others %.0f)", 10, 1},
};

std::string text_of(const char* format, double own, double others) {
  std::array<char, 160> text{};
  std::snprintf(text.data(), text.size(), format, own, others);
  return text.data();
}

double median_of_others(const std::vector<json>& changes_of, std::size_t rank, const char* name) {
  std::vector<double> values;
  for (std::size_t other = 0; other < changes_of.size(); ++other) {
    if (other != rank) values.push_back(changes_of[other].value(name, 0.0));
  }
  return values.empty() ? 0 : lower_median(std::move(values));
}

}  // namespace

RankConditions conditions_now() {
  RankConditions now;
  now.time_s = std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
  read_own_usage(now);
  read_cpus(now);
  read_heat(now);
  return now;
}

json changes_between(const RankConditions& before, const RankConditions& after) {
  const double time_s = std::max(after.time_s - before.time_s, 1e-3);
  const auto rate = [&](double RankConditions::*counter) { return (after.*counter - before.*counter) / time_s; };
  // The CPU time that other processes used. May be slightly negative, because ticks are coarse.
  const double others = rate(&RankConditions::busy_cpu_s) - rate(&RankConditions::own_cpu_s);
  return {{"queue_percent", 100 * rate(&RankConditions::queue_s)},
          {"other_cpus", std::max(others, 0.0)},
          {"stolen_percent", 100 * rate(&RankConditions::stolen_cpu_s)},
          {"io_wait_percent", 100 * rate(&RankConditions::io_wait_s)},
          {"major_faults", rate(&RankConditions::major_faults)},
          {"minor_faults", rate(&RankConditions::minor_faults)},
          {"involuntary_switches", rate(&RankConditions::involuntary_switches)},
          {"throttled", after.throttled - before.throttled},
          {"clock_ghz", after.clock_ghz},
          {"temperature", after.temperature}};
}

std::string what_differs(const std::vector<json>& changes_of, std::size_t rank) {
  std::string all;
  const auto add = [&](const std::string& text) { all += (all.empty() ? "" : ", ") + text; };
  const auto own_of = [&](const char* name) { return changes_of[rank].value(name, 0.0); };
  for (const auto& [name, text, min_difference, min_ratio] : kComparisons) {
    const double own = own_of(name), others = median_of_others(changes_of, rank, name);
    if (own >= others + min_difference && own >= min_ratio * others) add(text_of(text, own, others));
  }
  const double clock = own_of("clock_ghz"), usual = median_of_others(changes_of, rank, "clock_ghz");
  if (clock > 0 && clock < 0.9 * usual) add(text_of("a clock of %.1f GHz (others %.1f)", clock, usual));
  return all;
}

}  // namespace mn

/// What may make a rank slow, as its process can see it: other work on its CPUs, waiting for storage, faults, heat.
#pragma once

#include <string>
#include <vector>

#include <nlohmann/json_fwd.hpp>

namespace mn {

/// Counters of this process and of the CPUs that it may use, at a moment. What can't be read is 0.
struct RankConditions {
  double time_s = 0;                ///< seconds on a steady clock
  double own_cpu_s = 0;             ///< CPU time of this process
  double busy_cpu_s = 0;            ///< CPU time of all on its CPUs, without what a hypervisor took
  double stolen_cpu_s = 0;          ///< that a hypervisor took from them
  double io_wait_s = 0;             ///< in which they were idle while somebody waited for storage
  double queue_s = 0;               ///< in which the calling thread could have run, but had no CPU
  double major_faults = 0;          ///< page faults that read from storage
  double minor_faults = 0;          ///< those that did not
  double involuntary_switches = 0;  ///< in which another took its CPU
  double throttled = 0;             ///< times that heat has slowed its CPU down
  double clock_ghz = 0;             ///< frequency of its CPU now
  double temperature = 0;           ///< °C of the hottest zone now
};

/// Opens some files of /proc and /sys; call it on the thread that trains.
[[nodiscard]] RankConditions conditions_now();

/// What has happened between two moments, a second's share where that makes sense: name → number.
[[nodiscard]] nlohmann::json changes_between(const RankConditions& before, const RankConditions& after);

/// "waited for a CPU 41 % of the time (others 0 %), …": in what the changes of rank `rank` differ from the others'
/// lower median. Empty if nothing differs much.
[[nodiscard]] std::string what_differs(const std::vector<nlohmann::json>& changes_of, std::size_t rank);

}  // namespace mn

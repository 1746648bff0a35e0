/// Finds possible reasons why a rank is slow: other processes on its CPUs, slow storage, page faults, heat.
#pragma once

#include <string>
#include <vector>

#include <nlohmann/json_fwd.hpp>

namespace mn {

/// Counters of the process and its CPUs at one moment; 0 if a counter cannot be read.
struct RankConditions {
  double time_s = 0;                ///< seconds on a steady clock
  double own_cpu_s = 0;             ///< CPU time of the process
  double busy_cpu_s = 0;            ///< CPU time of all processes on its CPUs, without stolen_cpu_s
  double stolen_cpu_s = 0;          ///< CPU time taken by a hypervisor
  double io_wait_s = 0;             ///< time of idle CPUs while a process waited for storage
  double queue_s = 0;               ///< time that the calling thread waited for a CPU
  double major_faults = 0;          ///< page faults with a read from storage
  double minor_faults = 0;          ///< page faults without a read
  double involuntary_switches = 0;  ///< times that the kernel gave the CPU away
  double throttled = 0;             ///< times that heat slowed the CPU down
  double clock_ghz = 0;             ///< current frequency of the CPU
  double temperature = 0;           ///< °C of the hottest zone now
};

/// Reads the counters of this moment from some files of /proc and /sys. Call it on the training thread.
[[nodiscard]] RankConditions conditions_now();

/// Returns, by name, the counters' changes, most as rates per second, and the later clock and temperature.
[[nodiscard]] nlohmann::json changes_between(const RankConditions& before, const RankConditions& after);

/// Describes how `rank` differs from all other ranks, for instance "waited for a CPU 41 % of the time (others 0 %), …".
/// "others" is their lower median. Empty if no difference is large.
[[nodiscard]] std::string what_differs(const std::vector<nlohmann::json>& changes_of, std::size_t rank);

}  // namespace mn

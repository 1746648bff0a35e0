/// Pure functions for the self test's report, which is a JSON document. They combine the results of the ranks, find
/// what has become worse since an earlier report, and turn the report into text.
#pragma once

#include <map>
#include <set>
#include <string>
#include <vector>

#include <nlohmann/json_fwd.hpp>

#include "facts/ports.hpp"

namespace mn::selftest {

/// The word with which the result of a failed test begins.
inline constexpr const char* kFailed = "FAILED";

/// Combines the results of all ranks into one text. If all results are equal, returns that result. Otherwise returns a
/// list of the different results with the hosts of each, failures first. `hosts` has the host of each rank. Empty
/// results are left out.
[[nodiscard]] std::string combine(const std::vector<std::string>& results, const std::vector<std::string>& hosts);

/// Returns, for each rank, the name that the launcher gives to the rank's host, from mnlaunch's `placement`. `hosts`
/// has the names that MPI gives. If the two kinds of names do not match one to one, returns MPI's names.
[[nodiscard]] std::vector<std::string> launcher_names(const nlohmann::json& placement,
                                                      const std::vector<std::string>& hosts);

/// Returns the hosts of the ranks that failed, each host once. Empty if there are several hosts and all of them failed,
/// because then no single host is at fault.
[[nodiscard]] std::vector<std::string> failed_hosts(const std::vector<std::string>& results,
                                                    const std::vector<std::string>& hosts);

/// Returns "passed" if `sentences` is empty. Otherwise returns FAILED followed by the sentences.
[[nodiscard]] std::string verdict_of(const std::vector<std::string>& sentences);

/// Returns a sentence for each measured figure that is much worse in `report` than in `earlier`, a report of an earlier
/// run.
[[nodiscard]] std::vector<std::string> changes_since(const nlohmann::json& earlier, const nlohmann::json& report);

/// The end of the text about a GPU problem, if this build of mn is at fault and the hardware is not.
inline constexpr const char* kNotThisBuild = "the driver opens them, but not to this build of mn";
/// Makes a finding, as mnlaunch's checks do, about GPUs on `hosts` that NVML shows but CUDA does not see. `problem` is
/// the reason.
[[nodiscard]] nlohmann::json finding_of_gpu_problem(const std::string& problem, const std::set<std::string>& hosts);

/// Makes a warning about known faults in the version of NCCL. `faults` is the text that nccl_faults() returns.
[[nodiscard]] nlohmann::json finding_of_nccl_faults(const std::string& faults, const std::vector<std::string>& hosts);

/// Whether a check has found an error or a test has failed.
[[nodiscard]] bool has_errors(const nlohmann::json& report);

/// For each host with broken hardware, what to do about it: isolate, reboot, reset or watch. If several findings,
/// kernel log errors and failed tests give advice for a host, the gravest advice counts.
[[nodiscard]] std::map<std::string, std::string> advice_of(const nlohmann::json& report);

/// The report as text for people: placement, findings, results of tests, figures of pairs of nodes (only the slowest
/// pairs if there are many), advice, and history.
[[nodiscard]] std::string text_of(const nlohmann::json& report);

/// Compares two readings of the ports' counters, before and after the tests. Returns "passed", or FAILED and the ports
/// that lost their link or counted errors in between. Empty if there are no ports.
[[nodiscard]] std::string judge_ports(const std::vector<launcher::PortFacts>& before,
                                      const std::vector<launcher::PortFacts>& after);

}  // namespace mn::selftest

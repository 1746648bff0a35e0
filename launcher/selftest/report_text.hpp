/// Pure functions that combine the self test's results, compare them with earlier results, and write the report's text.
#pragma once

#include <map>
#include <set>
#include <string>
#include <vector>

#include <nlohmann/json_fwd.hpp>

#include "facts/ports.hpp"

namespace mn::selftest {

/// The first word in the result of a failed test.
inline constexpr const char* kFailed = "FAILED";

/// Combines the ranks' results: one text if all are equal, else a list of texts with their hosts, failures first.
[[nodiscard]] std::string combine(const std::vector<std::string>& results, const std::vector<std::string>& hosts);

/// Returns the launcher's name for each rank's host, from `placement`; MPI's names if the two do not match one to one.
[[nodiscard]] std::vector<std::string> launcher_names(const nlohmann::json& placement,
                                                      const std::vector<std::string>& hosts);

/// Returns the hosts that failed. Empty if all of several hosts failed, because then no single host is at fault.
[[nodiscard]] std::vector<std::string> failed_hosts(const std::vector<std::string>& results,
                                                    const std::vector<std::string>& hosts);

/// Returns "passed" if `sentences` is empty, else FAILED and the sentences.
[[nodiscard]] std::string verdict_of(const std::vector<std::string>& sentences);

/// Returns a sentence for each measured figure that is much worse in `report` than in `earlier`.
[[nodiscard]] std::vector<std::string> changes_since(const nlohmann::json& earlier, const nlohmann::json& report);

/// The end of a text about a GPU problem whose cause is this build of mn, not the hardware.
inline constexpr const char* kNotThisBuild = "the driver opens them, but not to this build of mn";
/// Makes a finding about GPUs on `hosts` that NVML shows but CUDA does not see (`problem`).
[[nodiscard]] nlohmann::json finding_of_gpu_problem(const std::string& problem, const std::set<std::string>& hosts);

/// Makes a warning about known faults in the version of NCCL. nccl_faults() returns `faults`.
[[nodiscard]] nlohmann::json finding_of_nccl_faults(const std::string& faults, const std::vector<std::string>& hosts);

/// Whether a check has found an error or a test has failed.
[[nodiscard]] bool has_errors(const nlohmann::json& report);

/// For each host with broken hardware, the gravest advice of findings, kernel log and tests.
[[nodiscard]] std::map<std::string, std::string> advice_of(const nlohmann::json& report);

/// The report for people. If there are many pairs of nodes, it has only the slowest.
[[nodiscard]] std::string text_of(const nlohmann::json& report);

/// Compares the ports' counters before and after the tests. Returns "passed", or FAILED and the ports with losses or
/// errors, or, without ports, an empty text.
[[nodiscard]] std::string judge_ports(const std::vector<launcher::PortFacts>& before,
                                      const std::vector<launcher::PortFacts>& after);

}  // namespace mn::selftest

/// Pure functions for the self test's report, a JSON document: they combine results of the ranks, find changes since an
/// earlier report, and make text.
#pragma once

#include <map>
#include <set>
#include <string>
#include <vector>

#include <nlohmann/json_fwd.hpp>

#include "facts/ports.hpp"

namespace mn::selftest {

/// The beginning of a bad result.
inline constexpr const char* kFailed = "FAILED";

/// Combines the results of all ranks to one text. If all results are equal, the text is that result. Otherwise the text
/// lists each result with its hosts, bad results first. `hosts`: host of each rank. Empty results are left out.
[[nodiscard]] std::string combine(const std::vector<std::string>& results, const std::vector<std::string>& hosts);

/// The launcher's name of each rank's host, from mnlaunch's `placement`. `hosts` has MPI's names. If the launcher's
/// names and MPI's names do not match one to one, returns MPI's names.
[[nodiscard]] std::vector<std::string> launcher_names(const nlohmann::json& placement,
                                                      const std::vector<std::string>& hosts);

/// The hosts whose ranks failed, each once. Empty if all of several hosts failed, because then no single host is at
/// fault.
[[nodiscard]] std::vector<std::string> failed_hosts(const std::vector<std::string>& results,
                                                    const std::vector<std::string>& hosts);

/// Returns "passed" if there are no sentences, else FAILED and the sentences.
[[nodiscard]] std::string verdict_of(const std::vector<std::string>& sentences);

/// Makes a sentence for each figure that is much worse in `report` than in `earlier`.
[[nodiscard]] std::vector<std::string> changes_since(const nlohmann::json& earlier, const nlohmann::json& report);

/// The end of the text about a GPU problem that is the fault of this build, not of the hardware.
inline constexpr const char* kNotThisBuild = "the driver opens them, but not to this build of mn";
/// Makes a finding, in mnlaunch's form, about GPUs that NVML shows but CUDA does not.
[[nodiscard]] nlohmann::json finding_of_gpu_problem(const std::string& problem, const std::set<std::string>& hosts);

/// Makes a warning about known faults of NCCL's version. `faults` is the text of nccl_faults().
[[nodiscard]] nlohmann::json finding_of_nccl_faults(const std::string& faults, const std::vector<std::string>& hosts);

/// Whether a check found an error, or a test failed.
[[nodiscard]] bool has_errors(const nlohmann::json& report);

/// For each host with broken hardware, the gravest advice: isolate, reboot, reset or watch. The advice comes from the
/// checks' findings, GPU errors in kernel logs, and failed tests.
[[nodiscard]] std::map<std::string, std::string> advice_of(const nlohmann::json& report);

/// The report as text: placement, findings, results, figures of pairs of nodes (only the slowest if there are many
/// pairs), advice, and history.
[[nodiscard]] std::string text_of(const nlohmann::json& report);

/// Returns "passed", or FAILED and the network ports that lost their link or counted errors between the two readings.
/// Empty if there are no ports.
[[nodiscard]] std::string judge_ports(const std::vector<launcher::PortFacts>& before,
                                      const std::vector<launcher::PortFacts>& after);

}  // namespace mn::selftest

/// The self test's report, a JSON document: what the ranks' results come to, what has changed, and its text. Pure.
#pragma once

#include <map>
#include <set>
#include <string>
#include <vector>

#include <nlohmann/json_fwd.hpp>

namespace mn::selftest {

/// A result that begins so is bad.
inline constexpr const char* kFailed = "FAILED";

/// One text for the results of all ranks, of which `hosts` names the hosts: the common one, or each with its hosts, bad
/// ones first. Ranks with an empty result have nothing to say.
[[nodiscard]] std::string combine(const std::vector<std::string>& results, const std::vector<std::string>& hosts);

/// By rank, hosts as mnlaunch's `placement` names them, which is how the launcher does; `hosts`, which are MPI's names,
/// where the two do not tell the same nodes apart.
[[nodiscard]] std::vector<std::string> launcher_names(const nlohmann::json& placement,
                                                      const std::vector<std::string>& hosts);

/// The hosts whose ranks failed, each once. Empty if all of several hosts failed: then none of them is at fault.
[[nodiscard]] std::vector<std::string> failed_hosts(const std::vector<std::string>& results,
                                                    const std::vector<std::string>& hosts);

/// "passed", or FAILED with the sentences.
[[nodiscard]] std::string verdict_of(const std::vector<std::string>& sentences);

/// One sentence for each figure of `report` that is much worse than in `earlier`.
[[nodiscard]] std::vector<std::string> changes_since(const nlohmann::json& earlier, const nlohmann::json& report);

/// The end of a problem that is not the hardware's.
inline constexpr const char* kNotThisBuild = "the driver opens them, but not to this build of mn";
/// A finding in mnlaunch's form about GPUs that NVML shows and CUDA does not.
[[nodiscard]] nlohmann::json finding_of_gpu_problem(const std::string& problem, const std::set<std::string>& hosts);

/// A warning about faults that NCCL's version is known for, as nccl_faults() tells them.
[[nodiscard]] nlohmann::json finding_of_nccl_faults(const std::string& faults, const std::vector<std::string>& hosts);

/// Whether a check found an error, or a test failed.
[[nodiscard]] bool has_errors(const nlohmann::json& report);

/// By host, what broken hardware asks for: the gravest of isolate, reboot, reset and watch. From the checks' findings,
/// the GPUs' errors in the kernel's logs, and failed tests.
[[nodiscard]] std::map<std::string, std::string> advice_of(const nlohmann::json& report);

/// The report as people read it: placement, findings, results, the figures of all pairs of nodes or, of many, of the
/// slowest; advice and history at the end.
[[nodiscard]] std::string text_of(const nlohmann::json& report);

}  // namespace mn::selftest

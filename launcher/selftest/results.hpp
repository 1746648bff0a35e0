/// The self test's report, a JSON document: what the ranks' results come to, what has changed, and its text. Pure.
#pragma once

#include <map>
#include <string>
#include <vector>

#include <nlohmann/json_fwd.hpp>

namespace mn::selftest {

/// A result that begins so is bad.
inline constexpr const char* kFailed = "FAILED";

/// One text for the results of all ranks, of which `hosts` names the hosts: the common one, or each with its hosts, bad
/// ones first. Ranks with an empty result have nothing to say.
[[nodiscard]] std::string combine(const std::vector<std::string>& results, const std::vector<std::string>& hosts);

/// "passed", or FAILED with the sentences.
[[nodiscard]] std::string verdict_of(const std::vector<std::string>& sentences);

/// One sentence for each figure of `report` that is much worse than in `earlier`.
[[nodiscard]] std::vector<std::string> changes_since(const nlohmann::json& earlier, const nlohmann::json& report);

/// Whether a check found an error, or a test failed.
[[nodiscard]] bool has_errors(const nlohmann::json& report);

/// By host, what broken hardware asks for: the gravest of isolate, reboot, reset and watch. From the checks' findings
/// and the GPUs' errors in the kernel's logs.
[[nodiscard]] std::map<std::string, std::string> advice_of(const nlohmann::json& report);

/// The report as people read it: placement, findings, results, the figures of all pairs of nodes or, of many, of the
/// slowest; advice at the end.
[[nodiscard]] std::string text_of(const nlohmann::json& report);

}  // namespace mn::selftest

/// Findings of checks, each with a remedy.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include <nlohmann/json_fwd.hpp>

namespace mn::launcher {

struct Finding {
  std::string check;               ///< name of the check in docs/launcher.md
  bool is_error = false;           ///< an error stops the job; else a warning
  std::vector<std::string> hosts;  ///< empty: all nodes
  std::string what;
  std::string remedy;
  std::string advice = {};  ///< with broken hardware, for --doctor: isolate, reboot, reset or watch

  [[nodiscard]] Finding on(const std::string& host) && {
    hosts.push_back(host);
    return std::move(*this);
  }
};
using Findings = std::vector<Finding>;

[[nodiscard]] inline Finding error_of(const std::string& check, const std::string& what, const std::string& remedy,
                                      const std::string& advice = "") {
  return {check, true, {}, what, remedy, advice};
}
[[nodiscard]] inline Finding warning_of(const std::string& check, const std::string& what, const std::string& remedy,
                                        const std::string& advice = "") {
  return {check, false, {}, what, remedy, advice};
}

/// Adds a finding. An equal finding of other nodes gets the new hosts instead.
void add(Findings& all, Finding finding);
void append(Findings& all, Findings more);

/// "error [libraries] vn2: WHAT; REMEDY".
[[nodiscard]] std::string to_line(const Finding& finding);
[[nodiscard]] nlohmann::json to_json(const Findings& findings);

}  // namespace mn::launcher

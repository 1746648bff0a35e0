#include <algorithm>
#include <set>

#include "checks/checks.hpp"
#include "checks/comparison.hpp"

namespace mn::launcher {
namespace {

constexpr const char* kRemedy =
    "start the same Python environment on all nodes: one in a shared folder, or a copy of it";

/// Whether ranks with different versions of the package cannot work together. Others may differ in results only.
bool must_agree(const std::string& package) {
  constexpr const char* kNames[] = {"torch", "jax", "jaxlib", "tensorflow", "deepspeed", "horovod"};
  return std::ranges::find(kNames, package) != std::end(kNames) || package.starts_with("nvidia_nccl");
}

/// No value on a node whose program is not Python: check_program() says so.
std::optional<std::string> version_on(const NodeFacts& node, const std::string& package) {
  const auto& versions = node.program.python;
  if (versions.empty()) return std::nullopt;
  const auto found = versions.find(package);
  return found == versions.end() ? "absent" : found->second;
}

}  // namespace

Findings check_python(const JobFacts& job) {
  const auto compare = [&](const std::string& package, const Finding& finding) {
    return differences(job, finding, [&](const NodeFacts& node) { return version_on(node, package); });
  };
  // Each Python has packages of its own, so their versions say nothing new.
  Findings findings = compare("python", error_of("python", "the version of Python", kRemedy));
  if (!findings.empty()) return findings;
  std::set<std::string> packages;
  for (const auto& node : job.nodes) {
    for (const auto& [package, version] : node.program.python) packages.insert(package);
  }
  for (const auto& package : packages) {
    const std::string what = "the version of " + package;
    append(findings, compare(package, must_agree(package) ? error_of("python", what, kRemedy)
                                                          : warning_of("python", what, kRemedy)));
  }
  return findings;
}

}  // namespace mn::launcher

#include <algorithm>
#include <map>
#include <set>

#include "checks/checks.hpp"
#include "checks/comparison.hpp"
#include "facts/collect.hpp"

namespace mn::launcher {
namespace {

constexpr const char* kAbsent = "absent";
constexpr const char* kUnset = "not set";

bool breaks_jobs(const std::string& library) {
  constexpr const char* kNames[] = {"libmpi.", "libmpich.", "libnccl.", "libcudart."};
  return std::ranges::any_of(kNames, [&](const char* name) { return library.starts_with(name); });
}

/// The member `fact` of the library `name`, as text. No value for the driver's library on a node without GPUs.
template <typename Value>
std::optional<std::string> fact_of_library(const NodeFacts& node, const std::string& name,
                                           std::optional<Value> BuildFacts::*fact) {
  if (!node.program.libraries || (name.starts_with("libcuda.") && !has_gpus(node))) return std::nullopt;
  const auto found = node.program.libraries->find(name);
  if (found == node.program.libraries->end()) return kAbsent;
  const auto& value = found->second.*fact;
  return value ? std::optional(text_of(*value)) : std::nullopt;
}

bool has_silent_loader(const NodeFacts& node) {
  return node.program.error.empty() && node.program.program.path && !node.program.libraries;
}

/// The variable's values on all nodes. If one node has sent a hash and another node the value of this hash, the value
/// replaces the hash.
NodeValues values_of_variable(const JobFacts& job, const std::string& name) {
  std::map<std::string, std::string> text_of_hash;
  NodeValues values;
  for (const auto& node : job.nodes) {
    auto& value = values.emplace_back();
    if (!node.environment) continue;
    const auto found = node.environment->find(name);
    value = found == node.environment->end() ? kUnset : found->second;
    const std::string hash = hash_of_value(*value);
    if (hash != *value) text_of_hash.emplace(hash, *value);
  }
  for (auto& value : values) {
    const auto text = value ? text_of_hash.find(*value) : text_of_hash.end();
    if (text != text_of_hash.end()) value = text->second;
  }
  return values;
}

std::optional<std::string> or_absent(const std::optional<std::string>& fact) {
  return fact && fact->empty() ? kAbsent : fact;
}

const FileFacts* existing_file(const NodeFacts& node, std::size_t i) {
  return i < node.files.size() && node.files[i].exists ? &node.files[i] : nullptr;
}

Findings compare_file(const JobFacts& job, std::size_t i, const std::string& path) {
  const std::string remedy = "copy the right version to all nodes";
  auto findings = affected(job, error_of("files", path + " is not a regular file", "name the files to be compared"),
                           [&](const NodeFacts& node) { return !existing_file(node, i)->size; });
  if (!findings.empty()) return findings;
  findings = differences(job, error_of("files", "the size of " + path, remedy),
                         [&](const NodeFacts& node) { return existing_file(node, i)->size; });
  if (!findings.empty()) return findings;
  findings = differences(
      job, error_of("files", "the hash of " + path, remedy),
      [&](const NodeFacts& node) { return existing_file(node, i)->hash; }, NoValue::kReport);
  if (!findings.empty()) return findings;
  return differences(job,
                     warning_of("files", "the time of change of " + path + " (its middle is not compared)",
                                "compare it (cmp), or copy it again and keep its times (sbcast -p, rsync -t)"),
                     [&](const NodeFacts& node) { return existing_file(node, i)->changed; });
}

}  // namespace

Findings check_program(const JobFacts& job) {
  Findings findings = on_each_node(job, [&](std::size_t node, auto report) {
    const std::string& what = job.nodes[node].program.error;
    if (!what.empty()) report(error_of("program", what, "copy it there (sbcast) or use a shared folder"));
  });
  if (!findings.empty()) return findings;
  const std::string remedy = "build once into a shared folder, or copy the same build to all nodes (sbcast)";
  const auto compare = [&](auto found, const char* what, auto fact) {
    append(findings, differences(job, found("program", what, remedy, ""), fact, NoValue::kReport));
  };
  compare(error_of, "the build of the program", [](const NodeFacts& node) { return node.program.program.id; });
  compare(error_of, "the build of mnlaunch", [](const NodeFacts& node) { return node.program.mnlaunch.id; });
  compare(error_of, "the script", [](const NodeFacts& node) { return or_absent(node.program.script); });
  if (!findings.empty()) return findings;
  // Sizes, too: a stripped or truncated file keeps its build id.
  compare(error_of, "the size of the program", [](const NodeFacts& node) { return node.program.program.size; });
  compare(error_of, "the size of mnlaunch", [](const NodeFacts& node) { return node.program.mnlaunch.size; });
  if (!findings.empty()) return findings;
  compare(warning_of, "the hash of /etc/mn/mnlaunch.conf",
          [](const NodeFacts& node) { return or_absent(node.program.settings); });
  compare(warning_of, "the path of the program", [](const NodeFacts& node) { return node.program.program.path; });
  return findings;
}

Findings check_unresolved(const JobFacts& job) {
  return on_each_node(job, [&](std::size_t node, auto report) {
    for (const auto& name : job.nodes[node].program.missing) {
      report(error_of("unresolved", "the program needs " + name + ", which is not found",
                      "export LD_LIBRARY_PATH to all nodes: srun --export=ALL, mpiexec -x LD_LIBRARY_PATH"));
    }
  });
}

Findings check_libraries(const JobFacts& job) {
  std::set<std::string> names;
  for (const auto& node : job.nodes) {
    if (!node.program.libraries) continue;
    for (const auto& [name, library] : *node.program.libraries) names.insert(name);
  }
  Findings findings = affected(
      job,
      warning_of(
          "libraries", "the dynamic loader gave no list of the program's libraries, so they were not compared",
          "try ldd there: a file system of LD_LIBRARY_PATH, or the program's, may be slow, or the program damaged"),
      has_silent_loader);
  const auto compare = [&](const std::string& name, const char* what, auto fact) {
    const auto finding = breaks_jobs(name) ? error_of : warning_of;
    auto found = differences(
        job, finding("libraries", what + name, "load the same modules on all nodes, or fix LD_LIBRARY_PATH", ""),
        [&](const NodeFacts& node) { return fact_of_library(node, name, fact); });
    append(findings, found);
    return !found.empty();
  };
  for (const auto& name : names) {
    // Equal builds may differ in size, because a truncated file keeps its build id.
    if (!compare(name, "the build of ", &BuildFacts::id)) compare(name, "the size of ", &BuildFacts::size);
  }
  return findings;
}

Findings check_mpi(const JobFacts& job) {
  // With a wrong launcher, each rank would be a job of its own, or die in MPI_Init.
  const auto mismatch = [&](const NodeFacts& node) -> std::string {
    const std::string& mpi = node.program.mpi;
    if (job.launcher == Launcher::kPmix && !node.slurm_pmix && mpi == "MPICH")
      return "links MPICH, but Open MPI's mpiexec started it";
    if (job.launcher == Launcher::kPmi && mpi == "Open MPI")
      return "links Open MPI, but a launcher with a PMI server (Hydra, Flux) started it";
    if (job.launcher == Launcher::kVariables && mpi == "Open MPI" && !node.has_pmix)
      return "links Open MPI, but its launcher gave it no PMIx server";
    if (job.launcher != Launcher::kSlurm || job.layout.size() == 1) return "";
    if (mpi == "Open MPI") return "links Open MPI, but srun gave it no PMIx server";
    if (node.has_pmi) return "";
    if (!mpi.empty()) return "links " + mpi + ", but srun gave it no PMIx or PMI server";
    const std::string& of_script = node.program.script_mpi;
    if (!of_script.empty())
      return "is a script that starts " + of_script + ", to which srun gave no PMIx or PMI server";
    return "";
  };
  const std::string remedy = job.launcher == Launcher::kSlurm
                                 ? "add --mpi=pmix (srun --mpi=list shows what there is)"
                                 : "use the mpiexec that belongs to the program's MPI, or srun --mpi=pmix";
  return on_each_node(job, [&](std::size_t node, auto report) {
    const std::string what = mismatch(job.nodes[node]);
    if (!what.empty()) report(error_of("mpi", "the program " + what, remedy));
  });
}

Findings check_mpiexec(const JobFacts& job) {
  return differences(job, warning_of("mpiexec", "the mpiexec in PATH", "load the same modules on all nodes"),
                     [](const NodeFacts& node) { return or_absent(node.program.mpiexec); });
}

Findings check_nccl(const JobFacts& job) {
  Findings findings;
  const auto compare = [&](const char* what, std::optional<std::string> NcclFacts::*fact, const char* remedy) {
    append(findings, differences(job, error_of("nccl", what, remedy), [&](const NodeFacts& node) {
             return node.nccl ? or_absent((*node.nccl).*fact) : std::nullopt;
           }));
  };
  constexpr const char* kSameFile = "make the file the same on all nodes, or remove it";
  compare("the hash of /etc/nccl.conf", &NcclFacts::system_file, kSameFile);
  compare("the hash of ~/.nccl.conf", &NcclFacts::user_file, kSameFile);
  compare("NCCL's network plugin", &NcclFacts::net_plugin,
          "install the same libnccl-net on all nodes, or set NCCL_NET_PLUGIN=none");
  return findings;
}

Findings check_files(const JobFacts& job) {
  Findings findings;
  const std::size_t count = job.nodes.empty() ? 0 : job.nodes[0].files.size();
  for (std::size_t i = 0; i < count; ++i) {
    const std::string& path = job.nodes[0].files[i].path;
    const auto absent =
        affected(job, error_of("files", path + " can't be read", "copy it there, or use a shared folder"),
                 [&](const NodeFacts& node) { return existing_file(node, i) == nullptr; });
    append(findings, absent.empty() ? compare_file(job, i, path) : absent);
  }
  return findings;
}

Findings check_environment(const JobFacts& job) {
  // If these variables differ, the ranks wait for each other forever, so a difference is an error.
  constexpr const char* kFatal[] = {"NCCL_ALGO", "NCCL_PROTO", "NCCL_IGNORE_", "MV2_"};
  std::set<std::string> names;
  for (const auto& node : job.nodes) {
    if (!node.environment) continue;
    for (const auto& [name, value] : *node.environment) names.insert(name);
  }
  Findings findings;
  for (const auto& name : names) {
    const bool fatal = std::ranges::any_of(kFatal, [&](const char* prefix) { return name.starts_with(prefix); });
    const std::string remedy = "export it to all ranks: srun --export=ALL, mpiexec -x " + name;
    const Finding finding = fatal ? error_of("environment", name, remedy) : warning_of("environment", name, remedy);
    append(findings, differences(job, finding, values_of_variable(job, name)));
  }
  return findings;
}

}  // namespace mn::launcher

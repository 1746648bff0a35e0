#include <algorithm>
#include <set>

#include "checks/checks.hpp"
#include "checks/comparison.hpp"

namespace mn::launcher {
namespace {

constexpr const char* kAbsent = "not there";

bool breaks_jobs(const std::string& library) {
  constexpr const char* kNames[] = {"libmpi.", "libmpich.", "libnccl.", "libcudart."};
  return std::ranges::any_of(kNames, [&](const char* name) { return library.starts_with(name); });
}

/// The library's id; kAbsent if the program does not load it there.
std::optional<std::string> id_of_library(const NodeFacts& node, const std::string& name) {
  if (!node.program.libraries) return std::nullopt;
  const auto found = node.program.libraries->find(name);
  return found == node.program.libraries->end() ? kAbsent : found->second.id;
}

std::optional<std::string> value_of_variable(const NodeFacts& node, const std::string& name) {
  if (!node.environment) return std::nullopt;
  const auto found = node.environment->find(name);
  return found == node.environment->end() ? kAbsent : found->second;
}

/// An empty fact says that there is none.
std::optional<std::string> or_absent(const std::optional<std::string>& fact) {
  return fact && fact->empty() ? kAbsent : fact;
}

/// File `i` of --check-file where it exists, else null.
const FileFacts* existing_file(const NodeFacts& node, std::size_t i) {
  return i < node.files.size() && node.files[i].exists ? &node.files[i] : nullptr;
}

/// The first that is found: another size explains another hash.
Findings compare_file(const JobFacts& job, std::size_t i, const std::string& path) {
  const std::string remedy = "copy the right version to all nodes";
  auto findings = differences(job, {"files", true, {}, "the size of " + path, remedy},
                              [&](const NodeFacts& node) { return existing_file(node, i)->size; });
  if (!findings.empty()) return findings;
  findings = differences(
      job, {"files", true, {}, "the hash of " + path, remedy},
      [&](const NodeFacts& node) { return existing_file(node, i)->hash; }, NoValue::kReport);
  if (!findings.empty()) return findings;
  return differences(job,
                     {"files",
                      false,
                      {},
                      "the time of change of " + path + " (its middle is not compared)",
                      "compare it (cmp), or copy it again and keep its times (sbcast -p, rsync -t)"},
                     [&](const NodeFacts& node) { return existing_file(node, i)->changed; });
}

}  // namespace

Findings check_program(const JobFacts& job) {
  Findings findings;
  for (std::size_t node = 0; node < job.nodes.size(); ++node) {
    const std::string& error = job.nodes[node].program.error;
    if (!error.empty()) {
      add(findings, {"program", true, {job.host(node)}, error, "copy it there (sbcast) or use a shared folder"});
    }
  }
  if (!findings.empty()) return findings;
  const std::string remedy = "build once into a shared folder, or copy the same build to all nodes (sbcast)";
  const auto compare = [&](bool is_error, const char* what, auto fact) {
    append(findings, differences(job, {"program", is_error, {}, what, remedy}, fact, NoValue::kReport));
  };
  compare(true, "the build of the program", [](const NodeFacts& node) { return node.program.program.id; });
  compare(true, "the build of mnlaunch", [](const NodeFacts& node) { return node.program.mnlaunch.id; });
  compare(true, "the script's hash", [](const NodeFacts& node) { return node.program.script; });
  if (!findings.empty()) return findings;
  compare(false, "the path of the program", [](const NodeFacts& node) { return node.program.program.path; });
  return findings;
}

Findings check_unresolved(const JobFacts& job) {
  Findings findings;
  for (std::size_t node = 0; node < job.nodes.size(); ++node) {
    for (const auto& name : job.nodes[node].program.missing) {
      add(findings, {"unresolved",
                     true,
                     {job.host(node)},
                     "the program needs " + name + ", which is not found",
                     "export LD_LIBRARY_PATH to all nodes: srun --export=ALL, mpiexec -x LD_LIBRARY_PATH"});
    }
  }
  return findings;
}

Findings check_libraries(const JobFacts& job) {
  std::set<std::string> names;
  for (const auto& node : job.nodes) {
    if (!node.program.libraries) continue;
    for (const auto& [name, library] : *node.program.libraries) names.insert(name);
  }
  Findings findings;
  for (const auto& name : names) {
    append(findings, differences(job,
                                 {"libraries",
                                  breaks_jobs(name),
                                  {},
                                  "the build of " + name,
                                  "load the same modules on all nodes, or fix LD_LIBRARY_PATH"},
                                 [&](const NodeFacts& node) { return id_of_library(node, name); }));
  }
  return findings;
}

Findings check_mpi(const JobFacts& job) {
  // A launcher and an MPI that don't know each other start N jobs of one rank, or die in MPI_Init.
  const auto mismatch = [&](const NodeFacts& node) -> std::string {
    const std::string& mpi = node.program.mpi;
    if (job.launcher == Launcher::kPmix && !node.slurm_pmix && mpi == "MPICH")
      return "links MPICH, but Open MPI's mpiexec started it";
    if (job.launcher == Launcher::kPmi && mpi == "Open MPI")
      return "links Open MPI, but MPICH's mpiexec (Hydra) started it";
    if (job.launcher == Launcher::kSlurm && mpi == "Open MPI") return "links Open MPI, but srun gave it no PMIx server";
    return "";
  };
  Findings findings;
  for (std::size_t node = 0; node < job.nodes.size(); ++node) {
    const std::string what = mismatch(job.nodes[node]);
    if (what.empty()) continue;
    add(findings,
        {"mpi",
         true,
         {job.host(node)},
         "the program " + what,
         job.launcher == Launcher::kSlurm ? "add --mpi=pmix (srun --mpi=list shows what there is)"
                                          : "use the mpiexec that belongs to the program's MPI, or srun --mpi=pmix"});
  }
  return findings;
}

Findings check_mpiexec(const JobFacts& job) {
  return differences(job, {"mpiexec", false, {}, "the mpiexec in PATH", "load the same modules on all nodes"},
                     [](const NodeFacts& node) { return or_absent(node.program.mpiexec); });
}

Findings check_nccl(const JobFacts& job) {
  Findings findings;
  const auto compare = [&](const char* what, std::optional<std::string> NcclFacts::*fact, const char* remedy) {
    append(findings, differences(job, {"nccl", true, {}, what, remedy}, [&](const NodeFacts& node) {
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
        affected(job, {"files", true, {}, path + " can't be read", "copy it there, or use a shared folder"},
                 [&](const NodeFacts& node) { return existing_file(node, i) == nullptr; });
    append(findings, absent.empty() ? compare_file(job, i, path) : absent);
  }
  return findings;
}

Findings check_environment(const JobFacts& job) {
  // With these, ranks that disagree wait for each other for ever.
  constexpr const char* kFatal[] = {"NCCL_ALGO", "NCCL_PROTO", "NCCL_IB_HCA", "NCCL_IGNORE_", "MV2_"};
  std::set<std::string> names;
  for (const auto& node : job.nodes) {
    if (!node.environment) continue;
    for (const auto& [name, value] : *node.environment) names.insert(name);
  }
  Findings findings;
  for (const auto& name : names) {
    const bool fatal = std::ranges::any_of(kFatal, [&](const char* prefix) { return name.starts_with(prefix); });
    append(findings,
           differences(
               job, {"environment", fatal, {}, name, "export it to all ranks: srun --export=ALL, mpiexec -x " + name},
               [&](const NodeFacts& node) { return value_of_variable(node, name); }));
  }
  return findings;
}

}  // namespace mn::launcher

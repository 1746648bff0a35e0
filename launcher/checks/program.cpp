#include <algorithm>
#include <set>

#include "checks/checks.hpp"

namespace mn::launcher {
namespace {

const Facts& part(const Facts& node, const char* name) {
  static const Facts kNothing = Facts::object();
  const auto found = node.find(name);
  return found == node.end() ? kNothing : *found;
}

/// Keys of the object at nodes[i][section] of any node.
std::set<std::string> keys_of(const JobFacts& job, const char* section) {
  std::set<std::string> keys;
  for (const auto& node : job.nodes) {
    for (const auto& [key, value] : part(node, section).items()) keys.insert(key);
  }
  return keys;
}

std::string escaped(const std::string& key) {
  std::string text;
  for (const char c : key) text += c == '~' ? "~0" : c == '/' ? "~1" : std::string(1, c);
  return text;
}

bool breaks_jobs(const std::string& library) {
  constexpr const char* kNames[] = {"libmpi.", "libmpich.", "libnccl.", "libcudart."};
  return std::ranges::any_of(kNames, [&](const char* name) { return library.starts_with(name); });
}

}  // namespace

Findings check_program(const JobFacts& job) {
  Findings findings;
  for (std::size_t node = 0; node < job.nodes.size(); ++node) {
    const std::string error = part(job.nodes[node], "program").value("error", "");
    if (!error.empty()) {
      add(findings, {"program", true, {job.host(node)}, error, "copy it there (sbcast) or use a shared folder"});
    }
  }
  if (!findings.empty()) return findings;
  const std::string remedy = "build once into a shared folder, or copy the same build to all nodes (sbcast)";
  append(findings, differing(job, "program", true, "/program/program/id", "the build of the program", remedy));
  append(findings, differing(job, "program", true, "/program/mnlaunch/id", "the build of mnlaunch", remedy));
  append(findings, differing(job, "program", true, "/program/script", "the script's hash", remedy));
  if (findings.empty()) {
    append(findings, differing(job, "program", false, "/program/program/path", "the path of the program", remedy));
  }
  return findings;
}

Findings check_unresolved(const JobFacts& job) {
  Findings findings;
  for (std::size_t node = 0; node < job.nodes.size(); ++node) {
    for (const auto& name : part(job.nodes[node], "program").value("missing", std::vector<std::string>())) {
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
    for (const auto& [name, value] : part(part(node, "program"), "libraries").items()) names.insert(name);
  }
  Findings findings;
  for (const auto& name : names) {
    append(findings, differing(job, "libraries", breaks_jobs(name), "/program/libraries/" + escaped(name) + "/id",
                               "the build of " + name, "load the same modules on all nodes, or fix LD_LIBRARY_PATH"));
  }
  return findings;
}

Findings check_mpi(const JobFacts& job) {
  // A launcher and an MPI that don't know each other start N jobs of one rank, or die in MPI_Init.
  const auto mismatch = [&](const Facts& node) -> std::string {
    const std::string mpi = part(node, "program").value("mpi", "");
    const bool by_slurm = node.value("slurm_pmix", false);
    if (job.launcher == Launcher::kPmix && !by_slurm && mpi == "MPICH")
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
  return differing(job, "mpiexec", false, "/program/mpiexec", "the mpiexec in PATH",
                   "load the same modules on all nodes");
}

Findings check_nccl(const JobFacts& job) {
  Findings findings;
  for (const char* file : {"/etc/nccl.conf", "~/.nccl.conf"}) {
    append(findings, differing(job, "nccl", true, "/nccl/" + escaped(file), std::string("the hash of ") + file,
                               "make the file the same on all nodes, or remove it"));
  }
  append(findings, differing(job, "nccl", true, "/nccl/net_plugin", "NCCL's network plugin",
                             "install the same libnccl-net on all nodes, or set NCCL_NET_PLUGIN=none"));
  return findings;
}

Findings check_files(const JobFacts& job) {
  Findings findings;
  const std::size_t count = job.nodes.empty() ? 0 : part(job.nodes[0], "files").size();
  for (std::size_t i = 0; i < count; ++i) {
    const std::string at = "/files/" + std::to_string(i);
    const std::string path = job.nodes[0].at(Facts::json_pointer(at + "/path")).get<std::string>();
    const auto absent =
        where(job, {"files", true, {}, path + " can't be read", "copy it there, or use a shared folder"},
              [&](const Facts& node) { return !node.value(Facts::json_pointer(at + "/exists"), false); });
    if (!absent.empty()) {
      append(findings, absent);
      continue;
    }
    const std::string remedy = "copy the right version to all nodes";
    auto differences = differing(job, "files", true, at + "/size", "the size of " + path, remedy);
    if (differences.empty()) {
      differences = differing(job, "files", true, at + "/hash", "the hash of " + path, remedy);
    }
    if (differences.empty()) {
      differences = differing(job, "files", false, at + "/changed",
                              "the time of change of " + path + " (its middle is not compared)",
                              "compare it (cmp), or copy it again and keep its times (sbcast -p, rsync -t)");
    }
    append(findings, differences);
  }
  return findings;
}

Findings check_environment(const JobFacts& job) {
  // With these, ranks that disagree wait for each other for ever.
  constexpr const char* kFatal[] = {"NCCL_ALGO", "NCCL_PROTO", "NCCL_IB_HCA", "NCCL_IGNORE_", "MV2_"};
  Findings findings;
  for (const auto& name : keys_of(job, "environment")) {
    const bool fatal = std::ranges::any_of(kFatal, [&](const char* prefix) { return name.starts_with(prefix); });
    append(findings, differing(job, "environment", fatal, "/environment/" + escaped(name), name,
                               "export it to all ranks: srun --export=ALL, mpiexec -x " + name));
  }
  return findings;
}

}  // namespace mn::launcher

#include "facts/collect.hpp"

#include <cstdlib>
#include <optional>

#include <mn/core/checksum.hpp>
#include <mn/core/environment.hpp>

#include "bind/cpu_set.hpp"
#include "facts/fatbin.hpp"
#include "facts/gpu/amd_gpu.hpp"
#include "place/pmix_launcher.hpp"

namespace mn::launcher {
namespace {

/// The value as set: an empty CUDA_VISIBLE_DEVICES means the opposite of an unset variable.
std::optional<std::string> as_set(const Variables& variables, const char* name) {
  const auto found = variables.all().find(name);
  return found == variables.all().end() ? std::nullopt : std::optional(found->second);
}

std::vector<VisibleGpu> amd_gpus_of_rank(const std::vector<Gpu>& gpus, const Variables& variables) {
  auto by_hip = as_set(variables, "HIP_VISIBLE_DEVICES");
  if (!by_hip) by_hip = as_set(variables, "CUDA_VISIBLE_DEVICES");  // as HIP does
  return visible_amd_gpus(gpus, as_set(variables, "ROCR_VISIBLE_DEVICES"), by_hip);
}

std::optional<int> wanted_threads(const Variables& variables) {
  for (const char* name : {"OMP_NUM_THREADS", "SLURM_CPUS_PER_TASK"}) {
    if (const auto text = variables.get(name)) return std::atoi(text->c_str());  // the first number of "4,2" (nested)
  }
  return std::nullopt;
}

/// By file: the program, and torch's library of kernels.
std::map<std::string, GpuCode> collect_gpu_code(const ProgramFacts& program) {
  std::map<std::string, GpuCode> code;
  code["the program"] = read_gpu_code(program.program.path.value_or(""));
  if (!program.libraries) return code;
  for (const auto& [name, library] : *program.libraries) {
    if (name.starts_with("libtorch_cuda")) code[name] = read_gpu_code(library.path.value_or(""));
  }
  return code;
}

}  // namespace

RankFacts collect_rank_facts(const Placement& here, const Surroundings& surroundings) {
  RankFacts facts;
  facts.size = here.size;
  facts.conflicts = here.conflicts;
  std::string arguments;
  for (const auto& argument : surroundings.arguments) arguments += argument + '\n';
  facts.arguments = std::to_string(hash64(arguments));
  facts.threads = wanted_threads(surroundings.variables);
  facts.resources.mask = affinity_of_this_thread();
  std::string openable;
  if (const auto driver = read_gpus(kNvmlLibrary, GpuDetail::kIdentity)) {
    facts.resources.gpus = visible_gpus(driver->gpus, as_set(surroundings.variables, "CUDA_VISIBLE_DEVICES"));
    for (const auto& gpu : driver->gpus) openable += gpu.uuid;
  } else if (const auto amd = read_amd_gpus(surroundings.root)) {
    facts.resources.gpus = amd_gpus_of_rank(amd->gpus, surroundings.variables);
    for (const auto& gpu : amd->gpus) openable += gpu.uuid;
  }
  facts.openable = std::to_string(hash64(openable));
  return facts;
}

NodeFacts collect_node_facts(const Placement& here, const Surroundings& surroundings, bool compared) {
  NodeFacts facts;
  facts.host = host_name();
  facts.slurm_pmix = is_slurm_pmix(here.job);
  const auto& variables = surroundings.variables;
  facts.has_pmi = variables.has("PMI_FD") || variables.has("PMI_RANK");
  facts.has_pmix = variables.has("PMIX_NAMESPACE") || variables.has("OMPI_COMM_WORLD_RANK");
  facts.machine = read_machine();
  if (!compared) return facts;
  facts.system = collect_system_facts(surroundings);
  facts.program = collect_program_facts(surroundings);
  facts.environment = collect_environment(variables);
  facts.files = collect_file_facts(surroundings.check_files);
  facts.driver = read_gpus();
  if (!facts.driver) {
    facts.driver = read_amd_gpus(surroundings.root);
  } else {
    facts.nccl = collect_nccl_facts(surroundings);
    facts.gpu_code = collect_gpu_code(facts.program);
  }
  return facts;
}

}  // namespace mn::launcher

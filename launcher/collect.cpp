#include "collect.hpp"

#include <mn/core/checksum.hpp>

#include "facts/elf.hpp"
#include "facts/fatbin.hpp"
#include "bind/gpu.hpp"
#include "bind/machine.hpp"

namespace mn::launcher {
namespace {

/// CUDA_VISIBLE_DEVICES as set: unset and empty mean opposite things.
std::optional<std::string> visible_devices(const Variables& variables) {
  const auto found = variables.all().find("CUDA_VISIBLE_DEVICES");
  return found == variables.all().end() ? std::nullopt : std::optional(found->second);
}

/// How many threads the rank will run, as far as its variables tell; 0: they don't.
int wanted_threads(const Variables& variables) {
  for (const char* name : {"OMP_NUM_THREADS", "SLURM_CPUS_PER_TASK"}) {
    if (const auto text = variables.get(name)) return std::atoi(text->c_str());  // of 4,2 (nested) the first counts
  }
  return 0;
}

/// By file: the program, and torch's library of kernels.
Facts gpu_code_facts(const Facts& program) {
  Facts facts = Facts::object();
  facts["the program"] = read_gpu_code(program.at("program").at("path").get<std::string>());
  for (const auto& [name, library] : program.at("libraries").items()) {
    if (name.starts_with("libtorch_cuda")) facts[name] = read_gpu_code(library.at("path").get<std::string>());
  }
  return facts;
}

}  // namespace

Facts rank_facts(const Placement& here, const Surroundings& surroundings) {
  std::string arguments;
  for (const auto& argument : surroundings.arguments) arguments += argument + '\n';
  Facts gpus = Facts::array();
  std::string openable;
  if (const auto driver = read_gpus()) {
    for (const auto& gpu : visible_gpus(driver->gpus, visible_devices(surroundings.variables))) {
      gpus.push_back({gpu.uuid, gpu.bus_id});
    }
    for (const auto& gpu : driver->gpus) openable += gpu.uuid;
  }
  return {{"size", here.size},
          {"conflicts", here.conflicts},
          {"arguments", std::to_string(hash64(arguments))},
          {"mask", format_cpus(affinity_of_this_thread())},
          {"threads", wanted_threads(surroundings.variables)},
          {"gpus", gpus},
          {"openable", std::to_string(hash64(openable))}};
}

Facts node_facts(const Surroundings& surroundings, bool compared) {
  Facts facts = {{"machine", read_machine()}};
  if (!compared) return facts;
  facts["system"] = system_facts(surroundings);
  facts["program"] = program_facts(surroundings);
  facts["environment"] = environment_facts(surroundings.variables);
  facts["files"] = file_facts(surroundings.check_files);
  if (const auto driver = read_gpus()) {
    facts["gpu"] = *driver;
    facts["nccl"] = nccl_facts(surroundings);
    facts["gpu_code"] = gpu_code_facts(facts["program"]);
  }
  return facts;
}

std::vector<std::filesystem::path> pmix_libraries(const Variables& variables) {
  constexpr const char* kName = "libpmix.so.2";
  std::vector<std::filesystem::path> places;
  // A private MPI (a module, a container, a Python wheel) brings the libpmix that speaks its server's language.
  for (const char* folder : {"OMPI_LIBDIR_LOC", "OPAL_PREFIX", "PMIX_PREFIX"}) {
    const auto value = variables.get(folder);
    if (!value) continue;
    for (const char* below : {"", "openmpi", "lib", "lib/openmpi"})
      places.push_back(std::filesystem::path(*value) / below / kName);
  }
  std::erase_if(places, [](const auto& place) { return !std::filesystem::exists(place); });
  places.emplace_back(kName);
  return places;
}

}  // namespace mn::launcher

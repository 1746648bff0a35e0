#include <algorithm>
#include <chrono>

#include <mn/core/environment.hpp>

#include "facts/collect.hpp"
#include "facts/elf.hpp"
#include "facts/file_id.hpp"
#include "facts/find_program.hpp"

namespace mn::launcher {
namespace {

namespace fs = std::filesystem;

BuildFacts collect_build_facts(const fs::path& file, const std::optional<ElfFile>& elf) {
  std::error_code error;
  const std::uintmax_t size = fs::file_size(file, error);
  return {.path = file.string(), .id = file_id(file, elf), .size = error ? std::nullopt : std::optional(size)};
}

/// Libraries of which a difference between nodes is known to break jobs; of the others only the file is compared.
bool is_important(const std::string& name) {
  constexpr const char* kNames[] = {"libmpi.", "libmpich.",  "libpmix.",  "libnccl.", "libcudart.", "libcuda.",
                                    "libc.",   "libstdc++.", "libtorch_", "libc10",   "libhdf5",    "libucp."};
  return std::ranges::any_of(kNames, [&](const char* prefix) { return name.starts_with(prefix); });
}

/// Whose MPI a library is, by its soname: 40 is Open MPI's since 4.0; 12 is the MPICH ABI of MPICH, Intel and MVAPICH.
std::string mpi_family(const std::string& name) {
  if (name.starts_with("libmpich.so") || name == "libmpi.so.12") return "MPICH";
  return name.starts_with("libmpi.so.") ? "Open MPI" : "";
}

void collect_libraries(ProgramFacts& facts, const Surroundings& here, const std::optional<ElfFile>& elf) {
  facts.libraries.emplace();
  if (!elf || elf->interpreter.empty()) return;
  const auto libraries = list_libraries(elf->interpreter, here.program, here.loader_patience);
  if (libraries.empty()) facts.libraries.reset();  // the loader gave no answer
  for (const auto& library : libraries) {
    if (library.path.empty()) {
      facts.missing.push_back(library.name);
      continue;
    }
    if (const auto family = mpi_family(library.name); !family.empty()) facts.mpi = family;
    if (!is_important(library.name)) continue;
    std::error_code error;
    const fs::path real = fs::canonical(library.path, error);
    facts.libraries->emplace(library.name, collect_build_facts(real, read_elf(real)));
  }
}

/// The script that an interpreter will run: the first argument that is a file of modest size.
std::optional<std::string> id_of_script(const Surroundings& here) {
  constexpr std::uintmax_t kMostBytes = 1 << 20;
  for (std::size_t i = 1; i < here.arguments.size(); ++i) {
    const fs::path file = here.folder / here.arguments[i];
    std::error_code error;
    if (fs::is_regular_file(file, error) && fs::file_size(file, error) <= kMostBytes) return file_id(file, {});
  }
  return "";
}

std::string path_of_mpiexec(const Surroundings& here) {
  try {
    std::error_code error;
    return fs::canonical(find_program("mpiexec", "/", "/", here.variables.get("PATH").value_or("")), error).string();
  } catch (const ProgramError&) {
    return "";
  }
}

}  // namespace

ProgramFacts collect_program_facts(const Surroundings& here) {
  const auto elf = read_elf(here.program);
  const fs::path self = executable_path();
  ProgramFacts facts;
  facts.error = here.program_error;
  facts.program = collect_build_facts(here.program, elf);
  facts.mnlaunch = collect_build_facts(self, read_elf(self));
  facts.script = id_of_script(here);
  facts.mpiexec = path_of_mpiexec(here);
  std::error_code error;
  const fs::path settings = here.root / "etc/mn/mnlaunch.conf";
  facts.settings = fs::exists(settings, error) ? file_id(settings, {}) : std::string();
  collect_libraries(facts, here, elf);
  return facts;
}

}  // namespace mn::launcher

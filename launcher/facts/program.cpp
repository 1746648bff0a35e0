#include <algorithm>
#include <fstream>

#include <elf.h>

#include <mn/core/environment.hpp>

#include "facts/collect.hpp"
#include "facts/elf.hpp"
#include "facts/find_files.hpp"

namespace mn::launcher {
namespace {

namespace fs = std::filesystem;

BuildFacts collect_build_facts(const fs::path& file, const std::optional<ElfFile>& elf) {
  std::error_code error;
  const std::uintmax_t size = fs::file_size(file, error);
  return {.path = file.string(), .id = file_id(file, elf), .size = error ? std::nullopt : std::optional(size)};
}

bool is_important(const std::string& name) {
  constexpr const char* kNames[] = {"libmpi.", "libmpich.",  "libpmix.",  "libnccl.", "libcudart.", "libcuda.",
                                    "libc.",   "libstdc++.", "libtorch_", "libc10",   "libhdf5",    "libucp."};
  return std::ranges::any_of(kNames, [&](const char* prefix) { return name.starts_with(prefix); });
}

/// Returns the MPI of the library file `name`; empty for another library. libmpi.so.12 is MPICH's, also in Intel MPI
/// and MVAPICH; any other libmpi.so.NUMBER is Open MPI's.
std::string mpi_family(const std::string& name) {
  if (name.starts_with("libmpich.so") || name == "libmpi.so.12") return "MPICH";
  return name.starts_with("libmpi.so.") ? "Open MPI" : "";
}

void collect_libraries(ProgramFacts& facts, const Surroundings& here, const std::optional<ElfFile>& elf) {
  facts.libraries.emplace();
  if (!elf || elf->interpreter.empty()) return;
  const auto libraries = list_libraries(elf->interpreter, here.program, here.loader_patience);
  if (libraries.empty()) facts.libraries.reset();  // the loader did not answer
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

bool may_be_script(const fs::path& file) {
  constexpr std::uintmax_t kMaxBytes = 1 << 20;
  std::error_code error;
  return fs::is_regular_file(file, error) && fs::file_size(file, error) <= kMaxBytes;
}

/// Returns the first argument that is a file of at most 1 MiB; empty if there is none.
std::string script_of(const Surroundings& here) {
  for (std::size_t i = 1; i < here.arguments.size(); ++i) {
    if (may_be_script(here.folder / here.arguments[i])) return here.arguments[i];
  }
  return "";
}

/// The script's name and hash. Empty if there is no script, no value if it cannot be read.
std::optional<std::string> id_of_script(const std::string& script, const fs::path& folder) {
  if (script.empty()) return "";
  const auto hash = file_id(folder / script, {});
  return hash ? std::optional(script + " " + *hash) : std::nullopt;
}

std::string mpi_of_binary(const fs::path& program) {
  for (const auto& name : loader_texts(program, DT_NEEDED)) {
    if (const auto family = mpi_family(name); !family.empty()) return family;
  }
  return "";
}

/// mpi4py, or the MPI of a program that the script names; empty if there is none.
std::string mpi_of_script(const fs::path& script, const fs::path& folder) {
  if (!may_be_script(script) || read_elf(script)) return "";
  constexpr int kMaxWords = 1000;  // a script is short; a list of files is not
  std::ifstream text(script);
  std::string word;
  for (int i = 0; i < kMaxWords && text >> word; ++i) {
    if (word.find("mpi4py") != std::string::npos) return "mpi4py";
    std::erase_if(word, [](char c) { return c == '"' || c == '\''; });
    if (word.find('/') == std::string::npos) continue;
    if (auto mpi = mpi_of_binary(folder / word); !mpi.empty()) return mpi;
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
  const std::string script = script_of(here);
  facts.script = id_of_script(script, here.folder);
  facts.mpiexec = path_of_mpiexec(here);
  std::error_code error;
  const fs::path settings = here.root / "etc/mn/mnlaunch.conf";
  facts.settings = fs::exists(settings, error) ? file_id(settings, {}) : std::string();
  collect_libraries(facts, here, elf);
  for (const fs::path& file : {here.program, here.folder / script}) {
    if (facts.script_mpi.empty()) facts.script_mpi = mpi_of_script(file, here.folder);
  }
  facts.python = collect_python_facts(here);
  return facts;
}

}  // namespace mn::launcher

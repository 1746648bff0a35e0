#include <algorithm>
#include <array>
#include <fstream>

#include <dlfcn.h>
#include <sys/stat.h>
#include <unistd.h>

#include <mn/core/checksum.hpp>
#include <mn/core/environment.hpp>
#include <mn/core/error.hpp>

#include "facts/elf.hpp"
#include "facts/facts.hpp"
#include "facts/find_program.hpp"

namespace mn::launcher {
namespace {

namespace fs = std::filesystem;

std::string hex(std::uint64_t value) {
  char text[20];
  std::snprintf(text, sizeof text, "%016llx", static_cast<unsigned long long>(value));
  return text;
}

/// Two files with one identity hold the same bytes: the linker's build id where there is one, else a hash.
std::string identity(const fs::path& file, const std::optional<ElfFile>& elf) {
  if (elf && !elf->build_id.empty()) return elf->build_id.substr(0, 16);
  try {
    return hex(hash64_file(file));
  } catch (const DataError&) {
    return "unreadable";
  }
}

Facts executable_facts(const fs::path& file, const std::optional<ElfFile>& elf) {
  std::error_code error;
  const auto size = fs::file_size(file, error);
  return {{"path", file.string()}, {"size", error ? 0 : size}, {"id", identity(file, elf)}};
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

void add_libraries(Facts& facts, const fs::path& program, const std::optional<ElfFile>& elf) {
  facts["libraries"] = Facts::object();
  facts["missing"] = Facts::array();
  facts["mpi"] = "";
  if (!elf || elf->interpreter.empty()) return;
  for (const auto& library : list_libraries(elf->interpreter, program, std::chrono::seconds(3))) {
    if (library.path.empty()) {
      facts["missing"].push_back(library.name);
      continue;
    }
    if (const auto family = mpi_family(library.name); !family.empty()) facts["mpi"] = family;
    if (!is_important(library.name)) continue;
    std::error_code error;
    const fs::path real = fs::canonical(library.path, error);
    facts["libraries"][library.name] = {{"path", real.string()}, {"id", identity(real, read_elf(real))}};
  }
}

/// The script that an interpreter will run: the first argument that is a file of modest size.
std::string script_identity(const Surroundings& here) {
  constexpr std::uintmax_t kMostBytes = 1 << 20;
  for (std::size_t i = 1; i < here.arguments.size(); ++i) {
    const fs::path file = here.folder / here.arguments[i];
    std::error_code error;
    if (fs::is_regular_file(file, error) && fs::file_size(file, error) <= kMostBytes) return identity(file, {});
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

constexpr std::uintmax_t kEndBytes = 64 << 10;

std::string hash_of_ends(const fs::path& path, std::uintmax_t size) {
  std::ifstream file(path, std::ios::binary);
  std::string bytes(std::min(size, 2 * kEndBytes), '\0');
  const auto half = static_cast<std::streamsize>(std::min(size, kEndBytes));
  file.read(bytes.data(), half);
  file.seekg(static_cast<std::streamoff>(size - static_cast<std::uintmax_t>(half)));
  file.read(bytes.data() + (bytes.size() - static_cast<std::size_t>(half)), half);
  return file ? hex(hash64(bytes)) : "unreadable";
}

}  // namespace

Facts program_facts(const Surroundings& here) {
  const auto elf = read_elf(here.program);
  const fs::path self = executable_path();
  Facts facts = {{"program", executable_facts(here.program, elf)},
                 {"error", here.program_error},
                 {"mnlaunch", executable_facts(self, read_elf(self))},
                 {"script", script_identity(here)},
                 {"mpiexec", path_of_mpiexec(here)}};
  add_libraries(facts, here.program, elf);
  return facts;
}

Facts nccl_facts(const Surroundings& here) {
  const auto hash = [](const fs::path& file) {
    std::error_code error;
    return fs::exists(file, error) ? identity(file, {}) : std::string("not there");
  };
  const fs::path home = here.variables.get("HOME").value_or("/");
  // NCCL loads libnccl-net.so, or the library that NCCL_NET_PLUGIN names, through the dynamic loader's search.
  const std::string plugin = here.variables.get("NCCL_NET_PLUGIN").value_or("");
  const std::string name = plugin.empty() ? "libnccl-net.so" : "libnccl-net-" + plugin + ".so";
  std::string found = "none";
  if (void* handle = dlopen(name.c_str(), RTLD_LAZY | RTLD_LOCAL)) {
    found = name;
    dlclose(handle);
  }
  return {{"/etc/nccl.conf", hash(here.root / "etc/nccl.conf")},
          {"~/.nccl.conf", hash(home / ".nccl.conf")},
          {"net_plugin", found}};
}

Facts file_facts(const std::vector<fs::path>& files) {
  Facts facts = Facts::array();
  for (const auto& path : files) {
    struct stat status {};
    const bool exists = stat(path.c_str(), &status) == 0 && access(path.c_str(), R_OK) == 0;
    const auto size = static_cast<std::uintmax_t>(exists ? status.st_size : 0);
    const bool regular = exists && S_ISREG(status.st_mode);
    const bool is_hashed_whole = size <= 2 * kEndBytes;
    facts.push_back({{"path", path.string()},
                     {"exists", exists},
                     {"size", regular ? size : 0},
                     {"changed", regular && !is_hashed_whole ? status.st_mtim.tv_sec : 0},
                     {"hash", regular ? hash_of_ends(path, size) : ""}});
  }
  return facts;
}

}  // namespace mn::launcher

#include <sys/stat.h>
#include <unistd.h>

#include "facts/collect.hpp"
#include "facts/file_id.hpp"
#include "facts/find_library.hpp"

namespace mn::launcher {

namespace fs = std::filesystem;

std::vector<FileFacts> collect_file_facts(const std::vector<fs::path>& files) {
  std::vector<FileFacts> facts;
  for (const auto& path : files) {
    struct stat status {};
    FileFacts file{.path = path.string(), .exists = false, .size = 0, .changed = 0, .hash = ""};
    file.exists = stat(path.c_str(), &status) == 0 && access(path.c_str(), R_OK) == 0;
    if (file.exists && S_ISREG(status.st_mode)) {
      const auto size = static_cast<std::uintmax_t>(status.st_size);
      file.size = size;
      if (!is_hashed_whole(size)) file.changed = status.st_mtim.tv_sec;
      file.hash = hash_of_ends(path, size);
    }
    facts.push_back(std::move(file));
  }
  return facts;
}

NcclFacts collect_nccl_facts(const Surroundings& here) {
  const auto id_of = [](const fs::path& file) {
    std::error_code error;
    return fs::exists(file, error) ? file_id(file, {}) : std::string();
  };
  const fs::path home = here.variables.get("HOME").value_or("/");
  // NCCL loads libnccl-net.so, or the library named by NCCL_NET_PLUGIN, through the dynamic loader's search.
  const std::string plugin = here.variables.get("NCCL_NET_PLUGIN").value_or("");
  const std::string name = plugin.empty() ? "libnccl-net.so" : "libnccl-net-" + plugin + ".so";
  NcclFacts facts{
      .system_file = id_of(here.root / "etc/nccl.conf"), .user_file = id_of(home / ".nccl.conf"), .net_plugin = ""};
  if (const auto library = find_library(name, here.variables.get("LD_LIBRARY_PATH").value_or(""), here.root)) {
    facts.net_plugin = name + " " + file_id(*library, read_elf(*library)).value_or("");
  }
  return facts;
}

}  // namespace mn::launcher

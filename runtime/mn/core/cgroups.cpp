#include <mn/core/cgroups.hpp>

#include <fstream>

#include <mn/core/classic_stream.hpp>

namespace mn {

namespace fs = std::filesystem;

std::vector<fs::path> cgroups(const std::string& controller, const fs::path& root) {
  std::vector<fs::path> found;
  std::ifstream file(root / "proc/self/cgroup");
  for (std::string line; std::getline(file, line);) {  // "number:controllers:path"
    InText fields(line);
    std::string number, controllers, path;
    std::getline(fields, number, ':');
    std::getline(fields, controllers, ':');
    std::getline(fields, path);
    if (!controllers.empty() && ("," + controllers + ",").find("," + controller + ",") == std::string::npos) continue;
    fs::path folder = root / "sys/fs/cgroup" / controllers;
    found.push_back(folder);
    for (const auto& part : fs::path(path).relative_path()) found.push_back(folder /= part);
  }
  return found;
}

}  // namespace mn

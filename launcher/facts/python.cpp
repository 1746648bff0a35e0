// Finds Python's packages as Python itself does: along PYTHONPATH, the user's folder and the environment's folder. The
// names of *.dist-info folders tell the versions. Source: the modules site and getpath of CPython.
#include <algorithm>
#include <fstream>

#include <mn/core/text.hpp>

#include "facts/collect.hpp"
#include "facts/find_files.hpp"

namespace mn::launcher {
namespace {

namespace fs = std::filesystem;

bool is_python(const fs::path& program) { return program.filename().native().starts_with("python"); }

bool is_compared_package(const std::string& package) {
  constexpr const char* kExact[] = {
      "torch",      "torchvision", "triton",       "numpy",   "mpi4py", "lightning", "pytorch_lightning",
      "accelerate", "deepspeed",   "transformers", "horovod", "jax",    "jaxlib",    "tensorflow"};
  constexpr const char* kPrefixes[] = {"nvidia_nccl", "nvidia_cuda_runtime", "nvidia_cudnn", "nvidia_cublas",
                                       "nvidia_nvshmem"};
  return std::ranges::find(kExact, package) != std::end(kExact) ||
         std::ranges::any_of(kPrefixes, [&](const char* prefix) { return package.starts_with(prefix); });
}

/// The folders of a Python environment, and the settings in its pyvenv.cfg.
struct Environment {
  fs::path prefix;         ///< folder that holds bin/ and lib/
  fs::path base;           ///< prefix of the Python that the environment was made from; empty: it is none
  bool sees_base = false;  ///< `include-system-site-packages`
};

Environment environment_of(const fs::path& python) {
  Environment found{.prefix = python.parent_path().parent_path(), .base = {}, .sees_base = false};
  std::error_code error;
  std::ifstream settings(found.prefix / "pyvenv.cfg");
  if (!settings) found.prefix = fs::canonical(python, error).parent_path().parent_path();
  std::string line;
  while (std::getline(settings, line)) {
    const auto words = split(line, '=');
    if (words.size() != 2) continue;
    const auto value = trimmed(words[1]);
    if (trimmed(words[0]) == "home") found.base = fs::path(value).parent_path();
    if (trimmed(words[0]) == "include-system-site-packages") found.sees_base = to_lower(std::string(value)) == "true";
  }
  return found;
}

/// "3.11" of python3.11, to which the names python and python3 are links; else the only one in the environment's lib/.
std::string version_of(const fs::path& python, const Environment& environment) {
  constexpr std::string_view kName = "python";
  std::error_code error;
  const std::string file = fs::canonical(python, error).filename();
  if (file.find('.') != std::string::npos) return file.substr(kName.size());
  for (const auto& entry : fs::directory_iterator(environment.prefix / "lib", error)) {
    const std::string folder = entry.path().filename();
    if (is_python(folder) && folder.find('.') != std::string::npos) return folder.substr(kName.size());
  }
  return "";
}

/// The folders of `prefix` that hold packages, Debian's too.
std::vector<fs::path> folders_of(const fs::path& prefix, const std::string& version) {
  const std::string python = "python" + version;
  return {prefix / "local/lib" / python / "dist-packages", prefix / "lib" / python / "site-packages",
          prefix / "lib64" / python / "site-packages", prefix / "lib/python3/dist-packages"};
}

/// In the order in which Python looks for a package.
std::vector<fs::path> package_folders(const Surroundings& here, const Environment& environment,
                                      const std::string& version) {
  std::vector<fs::path> folders;
  const std::string search_path = here.variables.get("PYTHONPATH").value_or("");
  for (const auto part : split(search_path, ':')) {
    if (!part.empty()) folders.push_back(here.folder / part);
  }
  const bool is_closed = !environment.base.empty() && !environment.sees_base;
  const auto home = here.variables.get("HOME");
  if (!is_closed && home && !here.variables.has("PYTHONNOUSERSITE")) {
    const fs::path user = here.variables.get("PYTHONUSERBASE").value_or(*home + "/.local");
    folders.push_back(user / "lib" / ("python" + version) / "site-packages");
  }
  std::ranges::copy(folders_of(environment.prefix, version), std::back_inserter(folders));
  if (environment.sees_base) std::ranges::copy(folders_of(environment.base, version), std::back_inserter(folders));
  return folders;
}

/// Adds the packages of `folder`, except those that an earlier folder has.
void add_packages(std::map<std::string, std::string>& versions, const fs::path& folder) {
  constexpr std::string_view kEnd = ".dist-info";
  std::map<std::string, std::string> found;
  std::error_code error;
  for (const auto& entry : fs::directory_iterator(folder, error)) {
    const std::string name = entry.path().filename();
    const auto dash = name.find('-');
    if (!name.ends_with(kEnd) || dash >= name.size() - kEnd.size()) continue;
    const auto package = to_lower(name.substr(0, dash));
    if (is_compared_package(package)) found[package] = name.substr(dash + 1, name.size() - kEnd.size() - dash - 1);
  }
  versions.merge(found);
}

}  // namespace

std::map<std::string, std::string> collect_python_facts(const Surroundings& here) {
  fs::path python = here.program;
  if (!is_python(python)) python = interpreter_of(here.program, here.variables.get("PATH").value_or(""));
  if (!is_python(python)) return {};
  const auto environment = environment_of(python);
  const auto version = version_of(python, environment);
  std::map<std::string, std::string> versions = {{"python", version}};
  for (const auto& folder : package_folders(here, environment, version)) add_packages(versions, folder);
  return versions;
}

}  // namespace mn::launcher

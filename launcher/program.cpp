#include "program.hpp"

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <iostream>

#include <fcntl.h>
#include <unistd.h>

namespace mn::launcher {
namespace {

namespace fs = std::filesystem;

bool is_file(const fs::path& path) {
  std::error_code error;
  return fs::is_regular_file(path, error);
}

bool is_runnable(const fs::path& path) { return is_file(path) && access(path.c_str(), X_OK) == 0; }

std::vector<fs::path> places(const std::string& name, const fs::path& folder, const fs::path& beside,
                             const std::string& search_path) {
  std::vector<fs::path> found = {folder / name};  // an absolute name replaces the folder
  if (fs::path(name).is_absolute()) return found;
  found.push_back(beside / name);
  if (name.find('/') != std::string::npos) return found;
  for (std::size_t begin = 0; begin <= search_path.size();) {
    const std::size_t colon = std::min(search_path.find(':', begin), search_path.size());
    found.push_back(folder / search_path.substr(begin, colon - begin) / name);
    begin = colon + 1;
  }
  return found;
}

void redirect(int stream, const fs::path& path) {
  const int file = open(path.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);
  if (file < 0 || dup2(file, stream) < 0)
    throw UsageError(with_errno("--output: cannot write " + path.string(), errno));
  close(file);
}

}  // namespace

fs::path find_program(const std::string& name, const fs::path& folder, const fs::path& beside,
                      const std::string& search_path) {
  const auto candidates = places(name, folder, beside, search_path);
  for (const auto& path : candidates) {
    if (is_runnable(path)) return path.lexically_normal();
  }
  for (const auto& path : candidates) {
    if (is_file(path)) {
      throw ProgramError(path.lexically_normal().string() + " is not executable: chmod +x it, or name its interpreter",
                         126);
    }
  }
  throw ProgramError("program \"" + name + "\" was not found in " + folder.string() + ", beside mnlaunch in " +
                         beside.string() + (name.find('/') == std::string::npos ? ", or in PATH" : ""),
                     127);
}

void redirect_output(const fs::path& folder, int rank) {
  std::error_code error;
  fs::create_directories(folder, error);
  if (error) throw UsageError("--output: cannot make " + folder.string() + ": " + error.message());
  char name[32];
  std::snprintf(name, sizeof name, "rank-%04d", rank);
  std::cout.flush();
  std::cerr.flush();
  redirect(STDOUT_FILENO, folder / (std::string(name) + ".out"));
  redirect(STDERR_FILENO, folder / (std::string(name) + ".err"));
}

void become(const fs::path& program, const std::vector<std::string>& arguments, const Variables& environment) {
  // exec drops what is still in the buffers.
  std::cout.flush();
  std::cerr.flush();
  std::fflush(nullptr);
  std::vector<std::string> settings;
  for (const auto& [name, value] : environment.all()) settings.push_back(name + "=" + value);
  std::vector<char*> envp;
  for (auto& setting : settings) envp.push_back(setting.data());
  envp.push_back(nullptr);
  std::vector<char*> argv;
  for (const auto& argument : arguments) argv.push_back(const_cast<char*>(argument.c_str()));
  argv.push_back(nullptr);
  execve(program.c_str(), argv.data(), envp.data());
  throw ProgramError(with_errno("cannot run " + program.string(), errno), 126);
}

}  // namespace mn::launcher

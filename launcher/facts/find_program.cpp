#include "facts/find_program.hpp"

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <fstream>
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

constexpr const char* kOtherFolder = "; name a folder that this node can write";

void redirect(int stream, const fs::path& path) {
  const int file = open(path.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);
  if (file < 0 || dup2(file, stream) < 0)
    throw UsageError(with_errno("--output: cannot write " + path.string(), errno) + kOtherFolder);
  close(file);
}

/// What execve's `error` means for a file that is there and executable.
std::string why_not_run(const fs::path& program, int error) {
  std::ifstream file(program, std::ios::binary);
  std::string line;
  const bool is_script = std::getline(file, line) && line.starts_with("#!");
  if (error == ENOENT && is_script && line.ends_with('\r'))
    return "its lines end as on Windows; convert it (dos2unix, or sed -i 's/\\r$//')";
  if (error == ENOENT && is_script)
    return "the interpreter of its first line, " + line + ", is not on this node; correct the line or install it";
  if (error == ENOENT) return "its dynamic loader is not on this node; build it for this system";
  if (error == ENOEXEC)
    return "it is neither a program for this processor nor a script; begin a script with #!/bin/sh or the like";
  return std::strerror(error);
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
  std::error_code error;
  if (fs::is_directory(candidates.front(), error)) {
    throw ProgramError(candidates.front().lexically_normal().string() + " is a folder; name a program", 126);
  }
  throw ProgramError("program \"" + name + "\" was not found in " + folder.string() + ", beside mnlaunch in " +
                         beside.string() + (name.find('/') == std::string::npos ? ", or in PATH" : "") +
                         "; build it, or give its path",
                     127);
}

void redirect_output(const fs::path& folder, int rank) {
  std::error_code error;
  fs::create_directories(folder, error);
  if (error) throw UsageError("--output: cannot make " + folder.string() + ": " + error.message() + kOtherFolder);
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
  throw ProgramError("cannot run " + program.string() + ": " + why_not_run(program, errno), 126);
}

}  // namespace mn::launcher

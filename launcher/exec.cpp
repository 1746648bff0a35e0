#include "exec.hpp"

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <fstream>
#include <iostream>

#include <unistd.h>

#include <mn/core/exit_codes.hpp>

#include "facts/find_program.hpp"

namespace mn::launcher {
namespace {

namespace fs = std::filesystem;

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

void replace_process(const fs::path& program, const std::vector<std::string>& arguments, const Variables& environment) {
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
  throw ProgramError("cannot run " + program.string() + ": " + why_not_run(program, errno), kExitCannotRun);
}

}  // namespace mn::launcher

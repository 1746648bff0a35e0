#include "start/exec.hpp"

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <iostream>

#include <unistd.h>

#include <mn/core/exit_codes.hpp>

#include "facts/find_program.hpp"

namespace mn::launcher {
void replace_process(const std::filesystem::path& program, const std::vector<std::string>& arguments,
                     const Variables& environment) {
  // exec would drop the text in the buffers.
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
  throw ProgramError("cannot run " + program.string() + ": " + std::strerror(errno), kExitCannotRun);
}

}  // namespace mn::launcher

/// Starts a child process that shares no open files with this process.
#pragma once

#include <string>
#include <vector>

#include <sys/types.h>

namespace mn {

struct ChildSetup {
  int input = -1;                             ///< file descriptor of its standard input; -1: the input is empty
  int output = -1;                            ///< file descriptor of its standard output; -1: the output is dropped
  std::vector<std::string> environment = {};  ///< texts NAME=VALUE; empty: the environment of this process
  bool own_group = false;                     ///< true: kill(-id) ends the child and the child's children
};

/// Starts the program command[0], a name in PATH or a path, with the arguments that follow. The child's standard error
/// is dropped, its signals have their default actions, and it inherits no further open file, such as a socket of MPI.
/// Returns the id of the process, or a negative errno if the program can't be started.
[[nodiscard]] pid_t start_process(const std::vector<std::string>& command, const ChildSetup& setup = {});

}  // namespace mn

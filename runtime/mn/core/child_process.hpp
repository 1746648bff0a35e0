/// Starts a child process that shares no open files with this process.
#pragma once

#include <string>
#include <vector>

#include <sys/types.h>

namespace mn {

/// What a child process gets from its parent.
struct ChildSetup {
  int input = -1;                             ///< file descriptor of its standard input; -1: the input is empty
  int output = -1;                            ///< file descriptor of its standard output; -1: the output is dropped
  std::vector<std::string> environment = {};  ///< texts NAME=VALUE; empty: the environment of this process
  bool own_group = false;                     ///< true: kill(-id) ends the child and the child's children
};

/// Starts `command`, which has the name of a program in PATH, or its path, and the arguments. The child's standard
/// error is dropped, its signals have their default actions, and it inherits no further open file, such as a socket of
/// MPI. Returns the id of the process, or a negative errno if the program can't be started.
[[nodiscard]] pid_t start_process(const std::vector<std::string>& command, const ChildSetup& setup = {});

}  // namespace mn

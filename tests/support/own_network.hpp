/// Network interfaces of a test's own.
#pragma once

#include <cstdlib>
#include <functional>
#include <string>

#include <sched.h>
#include <sys/wait.h>
#include <unistd.h>

namespace mn::test {

inline constexpr int kNoOwnNetwork = 77;

/// The exit status of a child that runs `set_up`, a shell command, in a network namespace of its own, and then exits
/// with 0 if `holds` returns true there, else with 1. kNoOwnNetwork if that cannot be set up; -1 if the child crashed.
inline int status_in_own_network(const std::string& set_up, const std::function<bool()>& holds) {
  const pid_t child = fork();
  if (child == 0) {
    const bool is_ready = unshare(CLONE_NEWNET) == 0 && std::system(set_up.c_str()) == 0;
    _exit(!is_ready ? kNoOwnNetwork : holds() ? 0 : 1);
  }
  int status = 0;
  waitpid(child, &status, 0);
  return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

}  // namespace mn::test

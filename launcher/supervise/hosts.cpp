#include "supervise/hosts.hpp"

#include <chrono>
#include <sstream>
#include <utility>

#include <fcntl.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <mn/core/command_output.hpp>
#include <mn/core/net/interfaces.hpp>

namespace mn::launcher {
namespace {

using namespace std::chrono_literals;

/// -1 if it can't be started.
pid_t spawn_silently(const Words& command) {
  posix_spawn_file_actions_t files;
  posix_spawn_file_actions_init(&files);
  posix_spawn_file_actions_addopen(&files, STDIN_FILENO, "/dev/null", O_RDONLY, 0);
  posix_spawn_file_actions_addopen(&files, STDOUT_FILENO, "/dev/null", O_WRONLY, 0);
  posix_spawn_file_actions_addopen(&files, STDERR_FILENO, "/dev/null", O_WRONLY, 0);
  std::vector<char*> arguments;
  for (const auto& word : command) arguments.push_back(const_cast<char*>(word.c_str()));
  arguments.push_back(nullptr);
  pid_t process = -1;
  const int error = posix_spawnp(&process, arguments.front(), &files, nullptr, arguments.data(), environ);
  posix_spawn_file_actions_destroy(&files);
  return error == 0 ? process : -1;
}

bool succeeded(pid_t process) {
  int status = 1;
  return process > 0 && waitpid(process, &status, 0) == process && WIFEXITED(status) && WEXITSTATUS(status) == 0;
}

}  // namespace

HostProbes::HostProbes(Words hosts, bool by_srun) : hosts_(std::move(hosts)) {
  for (const auto& host : hosts_) {
    // --signal=KILL: srun waits on for a node that does not answer.
    Words probe = {"timeout", "--signal=KILL", "4"};
    Words how = {"ssh", "-o", "BatchMode=yes", "-o", "ConnectTimeout=3", host, "true"};
    if (by_srun) {
      how = {"srun", "--overlap", "--nodes=1", "--ntasks=1", "--nodelist=" + host, "--mpi=none", "--quiet", "true"};
    } else if (is_own_host(host)) {
      how = {"true"};  // mpiexec starts ranks of its own host without ssh
    }
    probe.insert(probe.end(), how.begin(), how.end());
    probes_.push_back(spawn_silently(probe));
  }
}

Words HostProbes::lost() {
  Words lost;
  for (std::size_t i = 0; i < hosts_.size(); ++i) {
    if (!succeeded(probes_[i])) lost.push_back(hosts_[i]);
  }
  probes_.assign(probes_.size(), -1);
  return lost;
}

void cancel_step(const std::string& job, const std::string& name) {
  std::istringstream lines(command_output({"squeue", "--noheader", "--steps", "--jobs=" + job, "--format=%i %j"}, 5s));
  for (std::string line; std::getline(lines, line);) {
    std::istringstream words(line);
    std::string step, step_name;
    words >> step >> step_name;
    if (step_name == name) static_cast<void>(command_output({"scancel", step}, 5s));
  }
}

}  // namespace mn::launcher

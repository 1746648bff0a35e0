#include <mn/core/child_process.hpp>

#include <csignal>

#include <fcntl.h>
#include <spawn.h>
#include <unistd.h>

namespace mn {
namespace {

std::vector<char*> pointers_to(const std::vector<std::string>& texts) {
  std::vector<char*> pointers;
  for (const std::string& text : texts) pointers.push_back(const_cast<char*>(text.c_str()));
  pointers.push_back(nullptr);
  return pointers;
}

}  // namespace

pid_t start_process(const std::vector<std::string>& command, const ChildSetup& setup) {
  posix_spawn_file_actions_t files;
  posix_spawn_file_actions_init(&files);
  const auto connect = [&files](int from, int to, int mode) {
    from >= 0 ? posix_spawn_file_actions_adddup2(&files, from, to)
              : posix_spawn_file_actions_addopen(&files, to, "/dev/null", mode, 0);
  };
  connect(setup.input, STDIN_FILENO, O_RDONLY);
  connect(setup.output, STDOUT_FILENO, O_WRONLY);
  connect(-1, STDERR_FILENO, O_WRONLY);
  posix_spawn_file_actions_addclosefrom_np(&files, STDERR_FILENO + 1);

  posix_spawnattr_t attributes;
  posix_spawnattr_init(&attributes);
  sigset_t signals;
  sigfillset(&signals);
  posix_spawnattr_setsigdefault(&attributes, &signals);
  sigemptyset(&signals);
  posix_spawnattr_setsigmask(&attributes, &signals);
  const int group = setup.own_group ? POSIX_SPAWN_SETPGROUP : 0;
  posix_spawnattr_setflags(&attributes, static_cast<short>(POSIX_SPAWN_SETSIGDEF | POSIX_SPAWN_SETSIGMASK | group));

  std::vector<char*> arguments = pointers_to(command), variables = pointers_to(setup.environment);
  pid_t process = -1;
  const int error = posix_spawnp(&process, arguments.front(), &files, &attributes, arguments.data(),
                                 setup.environment.empty() ? environ : variables.data());
  posix_spawnattr_destroy(&attributes);
  posix_spawn_file_actions_destroy(&files);
  return error == 0 ? process : -error;
}

}  // namespace mn

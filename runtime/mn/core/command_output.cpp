#include <mn/core/command_output.hpp>

#include <array>
#include <cerrno>
#include <csignal>
#include <thread>

#include <fcntl.h>
#include <poll.h>
#include <sys/wait.h>
#include <unistd.h>

#include <mn/core/child_process.hpp>
#include <mn/core/fd.hpp>

namespace mn {
std::string command_output(const std::vector<std::string>& command, std::chrono::milliseconds patience,
                           const std::string& setting) {
  using std::chrono::milliseconds;
  using Clock = std::chrono::steady_clock;
  int ends[2];
  if (pipe2(ends, O_CLOEXEC) != 0) return "";
  const Fd output(ends[0]);
  Fd input(ends[1]);
  ChildSetup setup{.output = input.get()};
  if (!setting.empty()) {
    setup.environment.push_back(setting);  // the first of two equal names counts
    for (char** entry = environ; *entry != nullptr; ++entry) setup.environment.emplace_back(*entry);
  }
  const pid_t process = start_process(command, setup);
  if (process < 0) return "";
  input.reset();  // closes this end of the pipe; otherwise read() would never find the end
  const auto end = Clock::now() + patience;
  const auto text = read_to_end(output.get(), end);
  if (!text) kill(process, SIGKILL);
  // A program may close its output and continue to run, so wait for the program's end, too.
  while (waitpid(process, nullptr, WNOHANG) == 0) {
    if (Clock::now() >= end) kill(process, SIGKILL);
    std::this_thread::sleep_for(milliseconds(1));
  }
  return text.value_or("");
}

std::optional<std::string> read_to_end(int fd, std::chrono::steady_clock::time_point deadline) {
  std::string text;
  for (ssize_t bytes = 1; bytes > 0;) {
    const auto left = std::chrono::ceil<std::chrono::milliseconds>(deadline - std::chrono::steady_clock::now());
    pollfd readable{fd, POLLIN, 0};
    const int ready = left.count() > 0 ? poll(&readable, 1, static_cast<int>(left.count())) : 0;
    if (ready < 0 && errno == EINTR) continue;
    if (ready <= 0) return std::nullopt;
    std::array<char, 4096> piece;
    bytes = read(fd, piece.data(), piece.size());
    if (bytes < 0 && errno == EINTR)
      bytes = 1;
    else if (bytes > 0)
      text.append(piece.data(), static_cast<std::size_t>(bytes));
  }
  return text;
}

}  // namespace mn

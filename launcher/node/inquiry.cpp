#include "node/inquiry.hpp"

#include <algorithm>
#include <cerrno>
#include <csignal>

#include <fcntl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <mn/core/command_output.hpp>
#include <mn/core/error.hpp>

#include "place/processes.hpp"

namespace mn::launcher {
namespace {

/// Keeps no other descriptor than `fd`: a reader of this process's output must not wait for the child.
[[noreturn]] void answer_in_child(int fd, const std::function<std::string()>& question) {
  dup2(fd, STDIN_FILENO);
  const int null = open("/dev/null", O_RDWR);
  for (const int stream : {STDOUT_FILENO, STDERR_FILENO}) dup2(null, stream);
  close_from(STDERR_FILENO + 1);
  try {
    const std::string text = question() + '\n';
    _exit(write(STDIN_FILENO, text.data(), text.size()) == static_cast<ssize_t>(text.size()) ? 0 : 1);
  } catch (const std::exception&) {
    _exit(1);
  }
}

}  // namespace

Inquiry::Inquiry(const std::function<std::string()>& question) {
  int ends[2];
  if (pipe2(ends, O_CLOEXEC) != 0) throw Error(with_errno("cannot open a pipe", errno));
  output_ = Fd(ends[0]);
  const Fd input(ends[1]);
  child_ = fork();
  if (child_ < 0) throw Error(with_errno("cannot fork", errno));
  if (child_ == 0) answer_in_child(input.get(), question);
}

Inquiry::~Inquiry() {
  if (child_ <= 0) return;
  kill(child_, SIGKILL);
  waitpid(child_, nullptr, WNOHANG);
}

std::optional<std::string> Inquiry::answer(Clock::time_point deadline) {
  constexpr std::chrono::milliseconds kToRead{10};  // an answer that is already there counts even after the deadline
  auto text = read_to_end(output_.get(), std::max(deadline, Clock::now() + kToRead));
  if (!text || !text->ends_with('\n')) return std::nullopt;  // without the line end, the child ended too early
  text->pop_back();
  return text;
}

}  // namespace mn::launcher

/// Runs a question to a driver or a file system in a child process, because the answer of a hung one never comes.
#pragma once

#include <chrono>
#include <functional>
#include <optional>
#include <string>

#include <sys/types.h>

#include <mn/core/fd.hpp>

namespace mn::launcher {

/// The child starts in the constructor, so several inquiries wait at the same time. A child that hangs in the kernel
/// cannot be killed; it stays behind, but holds no descriptor of this process.
class Inquiry {
 public:
  using Clock = std::chrono::steady_clock;

  explicit Inquiry(const std::function<std::string()>& question);
  ~Inquiry();
  Inquiry(const Inquiry&) = delete;
  Inquiry& operator=(const Inquiry&) = delete;

  /// The text that the question returned. No value if the child ended without an answer or does not answer before
  /// `deadline`.
  [[nodiscard]] std::optional<std::string> answer(Clock::time_point deadline);

 private:
  pid_t child_ = -1;
  Fd output_;
};

}  // namespace mn::launcher

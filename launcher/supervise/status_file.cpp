#include "supervise/status_file.hpp"

#include <array>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <sstream>

#include <fcntl.h>
#include <unistd.h>

#include <mn/core/environment.hpp>
#include <mn/core/error.hpp>
#include <mn/core/fd.hpp>

namespace mn::launcher {
namespace {

constexpr const char* kVariable = "MN_STATUS_FILE";

}  // namespace

StatusFile::StatusFile() : named_(environment(kVariable)) {}

StatusFile::~StatusFile() {
  remove();
  if (!named_) unsetenv(kVariable);
}

void StatusFile::remove() noexcept {
  std::error_code none;
  if (exists()) std::filesystem::remove(path_, none);
}

std::string StatusFile::renew() {
  if (named_) path_ = *named_;
  remove();
  std::string path = named_.value_or((std::filesystem::current_path() / ".mn-supervise-XXXXXX").string());
  // O_EXCL and mkostemp() make a new file, so another user's file is never written.
  const Fd file(named_ ? open(path.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600)
                       : mkostemp(path.data(), O_CLOEXEC));
  if (!file) {
    path_.clear();
    const std::string why = with_errno("cannot make the file for progress, " + path, errno);
    unsetenv(kVariable);
    return why;
  }
  path_ = path;
  setenv(kVariable, path.c_str(), 1);
  return "";
}

std::optional<RunProgress> StatusFile::read() const { return exists() ? read_progress(path_) : std::nullopt; }

double StatusFile::silent_s() const {
  std::error_code error;
  const auto written = std::filesystem::last_write_time(path_, error);
  if (error) return 0;
  return std::chrono::duration<double>(std::filesystem::file_time_type::clock::now() - written).count();
}

std::optional<RunProgress> read_progress(const std::filesystem::path& path) {
  // In a shared folder, another user may have replaced the file by a link or a pipe.
  const Fd file(open(path.c_str(), O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC));
  std::array<char, 1024> text{};
  const ssize_t length = ::read(file.get(), text.data(), text.size());
  if (length <= 0) return std::nullopt;
  std::istringstream lines(std::string(text.data(), static_cast<std::size_t>(length)));
  std::string word;
  RunProgress progress;
  const auto reads = [&](const char* name, auto& value) { return (lines >> word >> value) && word == name; };
  const bool is_whole = reads("began", progress.began) && reads("iteration", progress.iteration) &&
                        reads("saved", progress.saved) && reads("up", progress.up) &&
                        reads("loaded", progress.loaded) && reads("stepped", progress.stepped);
  return is_whole ? std::optional(progress) : std::nullopt;
}

std::string Recovery::text() const {
  char line[256];
  std::snprintf(line, sizeof line,
                "detect %.1f s, tear down %.1f s, start %.1f s, load %.1f s, first step %.1f s: %.1f s in all",
                detect_s, tear_down_s, start_s, load_s, first_step_s, all_s());
  return line;
}

}  // namespace mn::launcher

#include "supervise/status_file.hpp"

#include <cerrno>
#include <chrono>
#include <cstdlib>

#include <fcntl.h>

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
  // Both create the file or fail: no foreign link is followed, no foreign file is taken.
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

}  // namespace mn::launcher

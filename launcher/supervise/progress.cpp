#include "supervise/progress.hpp"

#include <array>
#include <cstdio>
#include <map>
#include <sstream>

#include <fcntl.h>
#include <unistd.h>

#include <mn/core/fd.hpp>

namespace mn::launcher {

std::optional<RunProgress> read_progress(const std::filesystem::path& path) {
  // In a shared folder, the file may have become a link, or a pipe whose open() waits.
  const Fd file(open(path.c_str(), O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC));
  std::array<char, 1024> text{};
  const ssize_t length = ::read(file.get(), text.data(), text.size());
  if (length <= 0) return std::nullopt;
  std::istringstream lines(std::string(text.data(), static_cast<std::size_t>(length)));
  std::map<std::string, double> values;
  std::string word;
  for (double value = 0; lines >> word >> value;) values[word] = value;
  for (const char* name : {"began", "iteration", "saved", "up", "loaded", "stepped"}) {
    if (!values.contains(name)) return std::nullopt;
  }
  return RunProgress{.began = static_cast<std::int64_t>(values["began"]),
                     .iteration = static_cast<std::int64_t>(values["iteration"]),
                     .saved = static_cast<std::int64_t>(values["saved"]),
                     .up = values["up"],
                     .loaded = values["loaded"],
                     .stepped = values["stepped"]};
}

std::string Recovery::text() const {
  char line[256];
  std::snprintf(line, sizeof line,
                "detect %.1f s, tear down %.1f s, start %.1f s, load %.1f s, first step %.1f s: %.1f s in all",
                detect_s, tear_down_s, start_s, load_s, first_step_s, all_s());
  return line;
}

}  // namespace mn::launcher

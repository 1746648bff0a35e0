#include "supervise/progress.hpp"

#include <cstdio>
#include <fstream>
#include <map>

namespace mn::launcher {

std::optional<RunProgress> read_progress(const std::filesystem::path& path) {
  std::ifstream file(path);
  std::map<std::string, double> values;
  std::string word;
  for (double value = 0; file >> word >> value;) values[word] = value;
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

#include "facts/find_program.hpp"

#include <algorithm>
#include <vector>

#include <unistd.h>

#include <mn/core/exit_codes.hpp>

namespace mn::launcher {
namespace {

namespace fs = std::filesystem;

bool is_file(const fs::path& path) {
  std::error_code error;
  return fs::is_regular_file(path, error);
}

bool is_runnable(const fs::path& path) { return is_file(path) && access(path.c_str(), X_OK) == 0; }

std::vector<fs::path> candidates_for(const std::string& name, const fs::path& folder, const fs::path& beside,
                                     const std::string& search_path) {
  if (fs::path(name).is_absolute()) return {name};
  if (name.find('/') != std::string::npos) return {folder / name, beside / name};
  std::vector<fs::path> found;
  for (std::size_t begin = 0; begin <= search_path.size();) {
    const std::size_t colon = std::min(search_path.find(':', begin), search_path.size());
    found.push_back(folder / search_path.substr(begin, colon - begin) / name);
    begin = colon + 1;
  }
  found.push_back(beside / name);
  return found;
}

}  // namespace

fs::path find_program(const std::string& name, const fs::path& folder, const fs::path& beside,
                      const std::string& search_path) {
  const auto candidates = candidates_for(name, folder, beside, search_path);
  for (const auto& path : candidates) {
    if (is_runnable(path)) return path.lexically_normal();
  }
  for (const auto& path : candidates) {
    if (!is_file(path)) continue;
    constexpr auto kAnyone = fs::perms::owner_exec | fs::perms::group_exec | fs::perms::others_exec;
    const bool is_marked = (fs::status(path).permissions() & kAnyone) != fs::perms::none;
    throw ProgramError(path.lexically_normal().string() +
                           (is_marked ? " may not be run here: look at its rights and at its file system's (noexec)"
                                      : " is not executable: chmod +x it, or name its interpreter"),
                       kExitCannotRun);
  }
  std::error_code error;
  if (fs::is_directory(candidates.front(), error)) {
    throw ProgramError(candidates.front().lexically_normal().string() + " is a folder; name a program", kExitCannotRun);
  }
  const bool has_slash = name.find('/') != std::string::npos;
  const bool is_here = !has_slash && is_file(folder / name);
  throw ProgramError("program \"" + name + "\" was not found in " + (has_slash ? folder.string() : "PATH") +
                         " or beside mnlaunch in " + beside.string() + "; " +
                         (is_here ? "./" + name + " is the one of the current folder" : "build it, or give its path"),
                     kExitNotFound);
}

}  // namespace mn::launcher

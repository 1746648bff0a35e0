#include "facts/find_program.hpp"

#include <unistd.h>

#include <mn/core/exit_codes.hpp>
#include <mn/core/text.hpp>

namespace mn::launcher {
namespace {

namespace fs = std::filesystem;

bool is_runnable(const fs::path& path) { return is_file(path) && access(path.c_str(), X_OK) == 0; }

}  // namespace

bool is_file(const fs::path& path) {
  std::error_code error;
  return fs::is_regular_file(path, error);
}

std::vector<fs::path> paths_of(const std::string& name, const fs::path& folder, const std::string& search_path) {
  if (name.find('/') != std::string::npos) return {folder / name};
  std::vector<fs::path> found;
  for (const auto part : split(search_path, ':')) found.push_back(folder / part / name);
  return found;
}

fs::path find_program(const std::string& name, const fs::path& folder, const fs::path& beside,
                      const std::string& search_path) {
  auto candidates = paths_of(name, folder, search_path);
  candidates.push_back(beside / name);
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
  if (const auto status = fs::status(candidates.front(), error); fs::exists(status)) {
    throw ProgramError(candidates.front().lexically_normal().string() +
                           (fs::is_directory(status) ? " is a folder" : " is not a regular file") + "; name a program",
                       kExitCannotRun);
  }
  const bool has_slash = name.find('/') != std::string::npos;
  const bool is_here = !has_slash && is_file(folder / name);
  const std::string where =
      " in " + (has_slash ? folder.string() : "PATH") + " or beside mnlaunch in " + beside.string();
  throw ProgramError("program \"" + name + "\" was not found" + (fs::path(name).is_absolute() ? "" : where) + "; " +
                         (is_here ? "./" + name + " is the one of the current folder" : "build it, or give its path"),
                     kExitNotFound);
}

}  // namespace mn::launcher

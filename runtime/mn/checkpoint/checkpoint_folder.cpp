#include <algorithm>
#include <charconv>
#include <optional>
#include <string>
#include <string_view>
#include <system_error>
#include <utility>

#include <mn/checkpoint/checkpoint_folder.hpp>
#include <mn/core/file.hpp>
#include <mn/core/log.hpp>

namespace mn {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kPrefix = "snapshot_iter_";
constexpr std::string_view kAsidePrefix = "old_";

std::optional<std::int64_t> iteration_of(const fs::path& path) {
  const std::string name = path.filename().string();
  if (!name.starts_with(kPrefix)) return std::nullopt;
  std::int64_t iteration = 0;
  const auto [end, error] = std::from_chars(name.data() + kPrefix.size(), name.data() + name.size(), iteration);
  if (error != std::errc() || end != name.data() + name.size()) return std::nullopt;
  return iteration;
}

}  // namespace

fs::path checkpoint_path(const fs::path& folder, std::int64_t iteration) {
  return folder / (std::string(kPrefix) + std::to_string(iteration));
}

std::vector<fs::path> find_checkpoints(const fs::path& folder) {
  std::vector<std::pair<std::int64_t, fs::path>> found;
  std::error_code none;  // no folder: no checkpoints
  for (const auto& entry : fs::directory_iterator(folder, none)) {
    const auto iteration = iteration_of(entry.path());
    if (iteration && entry.is_regular_file()) found.emplace_back(*iteration, entry.path());
  }
  std::sort(found.rbegin(), found.rend());
  std::vector<fs::path> paths;
  for (auto& [iteration, path] : found) paths.push_back(std::move(path));
  return paths;
}

void set_later_checkpoints_aside(const fs::path& folder, std::int64_t iteration) {
  for (const fs::path& path : find_checkpoints(folder)) {
    if (*iteration_of(path) <= iteration) return;
    const fs::path aside = folder / (std::string(kAsidePrefix) + path.filename().string());
    fs::rename(path, aside);
    log_warning(path.string() + " is of another run, which had come further than this one: it is now " +
                aside.string());
  }
}

void remove_old_checkpoints(const fs::path& folder, std::size_t keep) {
  const std::vector<fs::path> paths = find_checkpoints(folder);
  for (std::size_t i = keep; i < paths.size(); ++i) {
    std::error_code error;
    fs::remove(paths[i], error);
    if (error) log_warning("the old checkpoint " + paths[i].string() + " can't be removed: " + error.message());
  }
  remove_abandoned_files(folder);
}

}  // namespace mn

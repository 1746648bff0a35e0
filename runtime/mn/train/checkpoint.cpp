#include <algorithm>
#include <charconv>

#include <mn/comm/communicator.hpp>
#include <mn/core/error.hpp>
#include <mn/core/json.hpp>
#include <mn/core/log.hpp>
#include <mn/train/checkpoint.hpp>
#include <mn/train/on_root.hpp>

namespace mn {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;

constexpr std::string_view kPrefix = "snapshot_iter_";
constexpr std::string_view kUnfinishedPrefix = ".snapshot_iter_";  // AtomicFile's

std::optional<std::int64_t> iteration_of(const fs::path& path) {
  const std::string name = path.filename().string();
  if (!name.starts_with(kPrefix)) return std::nullopt;
  std::int64_t iteration = 0;
  const auto [end, error] = std::from_chars(name.data() + kPrefix.size(), name.data() + name.size(), iteration);
  if (error != std::errc() || end != name.data() + name.size()) return std::nullopt;
  return iteration;
}

/// What AtomicFile left where a job was killed while it wrote.
std::vector<fs::path> unfinished_in(const fs::path& folder) {
  std::vector<fs::path> paths;
  for (const auto& entry : fs::directory_iterator(folder)) {
    const std::string name = entry.path().filename().string();
    if (name.starts_with(kUnfinishedPrefix) && name.ends_with(".tmp")) paths.push_back(entry.path());
  }
  return paths;
}

std::optional<Checkpoint> read_newest(const fs::path& folder) {
  for (const fs::path& path : find_checkpoints(folder)) {
    try {
      Checkpoint checkpoint = read_checkpoint(path);
      log_info("resuming from " + path.string());
      return checkpoint;
    } catch (const DataError& error) {
      log_warning(std::string(error.what()) + "; trying the one before");
    }
  }
  log_info("no checkpoint in " + folder.string() + ": training starts at the beginning");
  return std::nullopt;
}

}  // namespace

fs::path checkpoint_path(const fs::path& folder, std::int64_t iteration) {
  return folder / (std::string(kPrefix) + std::to_string(iteration));
}

std::vector<fs::path> find_checkpoints(const fs::path& folder) {
  struct Found {
    fs::file_time_type written;
    std::int64_t iteration;
    fs::path path;
  };
  std::vector<Found> found;
  std::error_code none;  // no folder: no checkpoints
  for (const auto& entry : fs::directory_iterator(folder, none)) {
    const auto iteration = iteration_of(entry.path());
    if (iteration && entry.is_regular_file()) found.push_back({entry.last_write_time(), *iteration, entry.path()});
  }
  std::sort(found.begin(), found.end(), [](const Found& a, const Found& b) {
    return std::tie(a.written, a.iteration) > std::tie(b.written, b.iteration);
  });
  std::vector<fs::path> paths;
  for (Found& one : found) paths.push_back(std::move(one.path));
  return paths;
}

void remove_old_checkpoints(const fs::path& folder, std::size_t keep) {
  const std::vector<fs::path> paths = find_checkpoints(folder);
  for (std::size_t i = keep; i < paths.size(); ++i) {
    std::error_code error;
    fs::remove(paths[i], error);
    if (error) log_warning("the old checkpoint " + paths[i].string() + " can't be removed: " + error.message());
  }
  for (const fs::path& path : unfinished_in(folder)) fs::remove(path);
}

std::optional<Checkpoint> load_checkpoint(Communicator& comm, const std::string& from, const fs::path& folder) {
  std::optional<Checkpoint> read;
  on_root<DataError>(
      comm,
      [&] {
        if (from == "auto") {
          read = read_newest(folder);
        } else {
          read = read_checkpoint(from);
          log_info("resuming from " + from);
        }
      },
      true);

  Checkpoint mine = read.value_or(Checkpoint());
  const json outline =
      comm.bcast_obj(json({{"found", read.has_value()}, {"ranks", mine.ranks.size()}, {"about", mine.about}}));
  if (!outline.at("found").get<bool>()) return std::nullopt;
  mine.about = outline.at("about");
  mine.model = comm.bcast_obj(mine.model);
  mine.optimizer = comm.bcast_obj(mine.optimizer);
  if (outline.at("ranks") != comm.size()) {
    mine.ranks.clear();
    return mine;
  }
  std::string own = comm.scatter_obj(mine.ranks);
  mine.ranks.assign(static_cast<std::size_t>(comm.size()), std::string());
  mine.ranks[static_cast<std::size_t>(comm.rank())] = std::move(own);
  return mine;
}

}  // namespace mn

#include <mn/checkpoint/format/checkpoint_folder.hpp>

#include <algorithm>
#include <charconv>
#include <cstdio>
#include <ranges>
#include <string>
#include <string_view>
#include <system_error>
#include <utility>

#include <mn/checkpoint/format/commit.hpp>
#include <mn/checkpoint/format/saved_checkpoint.hpp>
#include <mn/core/error.hpp>
#include <mn/core/file.hpp>
#include <mn/core/json.hpp>
#include <mn/core/log.hpp>

namespace mn {
namespace {

namespace fs = std::filesystem;

constexpr const char* kFolder = "ckpt";
constexpr std::string_view kPrefix = "step-";
constexpr std::string_view kAsidePrefix = "old_";
constexpr const char* kBest = "snapshot_best";

std::string name_of(std::int64_t iteration) {
  char digits[32];
  std::snprintf(digits, sizeof digits, "%08lld", static_cast<long long>(iteration));
  return std::string(kPrefix) + digits;
}

/// Returns the iteration in the name of a checkpoint. Returns no value for a name that name_of() does not make, such as
/// "step-5" or "step--0000005".
std::optional<std::int64_t> iteration_of(const std::string& name) {
  if (!name.starts_with(kPrefix)) return std::nullopt;
  std::int64_t number = 0;
  std::from_chars(name.data() + kPrefix.size(), name.data() + name.size(), number);
  if (number < 0 || name != name_of(number)) return std::nullopt;
  return number;
}

/// While commit_save() replaces a checkpoint, the old folder's name ends with kReplacedEnd, and the new folder's name
/// with kReplacingEnd. For the name ".step-00000003" + `end`, returns "step-00000003". Returns no value for any other
/// name.
std::optional<std::string> name_before(std::string_view end, const std::string& name) {
  if (!name.starts_with('.') || !name.ends_with(end)) return std::nullopt;
  return name.substr(1, name.size() - 1 - end.size());
}

bool is_absent(const std::error_code& error) {
  return error == std::errc::no_such_file_or_directory || error == std::errc::not_a_directory;
}

/// Returns the files and folders in `folder`. Returns none if the folder does not exist. Throws FileError if the folder
/// cannot be read.
std::vector<fs::directory_entry> entries_of(const fs::path& folder) {
  std::vector<fs::directory_entry> entries;
  std::error_code error;
  for (fs::directory_iterator next(folder, error), end; !error && next != end; next.increment(error)) {
    entries.push_back(*next);
  }
  if (!error || is_absent(error)) return entries;
  throw FileError(with_errno("cannot read the folder " + folder.string(), error.value()), error.value());
}

bool is_checkpoint(const fs::path& path) {
  const std::string name = path.filename().string();
  const auto visible = name_before(kReplacedEnd, name);
  if (!visible) return !name.starts_with('.') && is_committed(path);
  return is_committed(path) && !is_committed(path.parent_path() / *visible);
}

/// Returns where the link OUT/snapshot_best points. Returns an empty path if there is no link that mark_best() has
/// made.
fs::path best_of(const fs::path& out) {
  std::error_code error;
  const fs::path best = fs::read_symlink(out / kBest, error);
  if (error && !is_absent(error) && error != std::errc::invalid_argument) {  // invalid_argument: it is no link
    throw FileError(with_errno("cannot read the link " + (out / kBest).string(), error.value()), error.value());
  }
  const std::string name = best.filename().string();
  const bool is_own = iteration_of(name) || name.starts_with(std::string(kAsidePrefix) + std::string(kPrefix));
  return is_own && best == fs::path(kFolder) / name ? best : fs::path();
}

bool is_pinned(const fs::path& checkpoint) { return fs::exists(status_of(checkpoint / kPinName)); }

/// Returns a free name, old_step-N, to which a checkpoint of an earlier run is renamed if this run does not continue
/// it.
fs::path path_aside(const fs::path& checkpoint) {
  const std::string name = std::string(kAsidePrefix) + name_of(*checkpoint_iteration(checkpoint));
  fs::path free = checkpoint.parent_path() / name;
  for (int number = 2; fs::exists(status_of(free)); ++number) {
    free.replace_filename(name + "." + std::to_string(number));
  }
  return free;
}

void remove_with_warning(const fs::path& path) {
  try {
    remove_checkpoint(path);
  } catch (const DataError& error) {
    log_warning(error.what());
  }
}

/// Removes files of saves that were killed: folders without a manifest, and both folders of an unfinished replacement.
void remove_unfinished(const fs::path& folder) {
  for (const auto& entry : entries_of(folder)) {
    const std::string name = entry.path().filename().string();
    const std::string replaced =
        name_before(kReplacedEnd, name).value_or(name_before(kReplacingEnd, name).value_or(""));
    // `beside` is true if a save was killed between the two renames by which it replaces a checkpoint.
    const bool beside = iteration_of(replaced) && !is_checkpoint(entry.path());
    const bool unfinished = iteration_of(name) && !is_committed(entry.path());
    if ((beside || unfinished) && is_own(entry.path())) remove_with_warning(entry.path());
  }
}

}  // namespace

fs::path checkpoint_path(const fs::path& out, std::int64_t iteration) { return out / kFolder / name_of(iteration); }

std::optional<std::int64_t> checkpoint_iteration(const fs::path& path) {
  const std::string name = path.filename().string();
  return iteration_of(name_before(kReplacedEnd, name).value_or(name));
}

std::vector<fs::path> find_checkpoints(const fs::path& out) {
  std::vector<std::pair<std::int64_t, fs::path>> found;
  for (const auto& entry : entries_of(out / kFolder)) {
    const auto iteration = checkpoint_iteration(entry.path());
    if (iteration && is_checkpoint(entry.path())) found.emplace_back(*iteration, entry.path());
  }
  std::sort(found.rbegin(), found.rend());
  std::vector<fs::path> paths;
  for (auto& [iteration, path] : found) paths.push_back(std::move(path));
  return paths;
}

std::optional<std::int64_t> iteration_in(const fs::path& out, const fs::path& path) {
  std::error_code error;
  const fs::path real = fs::canonical(path, error);
  if (error || !fs::equivalent(real.parent_path(), out / kFolder, error)) return std::nullopt;
  return checkpoint_iteration(real);
}

CheckpointInfo read_checkpoint_info(const fs::path& path) {
  SavedCheckpoint checkpoint(path);
  checkpoint.check();
  const nlohmann::json& about = checkpoint.manifest().about;
  return read_json(path.string(), [&] {
    return CheckpointInfo{count_of(about.at("iteration")), count_of(about.at("epoch")),
                          about.at("epoch_detail").get<double>(), static_cast<std::int64_t>(checkpoint.ranks())};
  });
}

void set_checkpoints_aside(const fs::path& out, std::optional<std::int64_t> continued, std::int64_t iteration) {
  const fs::path best = best_of(out);
  std::string names;
  const std::vector<fs::path> paths = find_checkpoints(out);
  // The oldest checkpoint is renamed first. If the process ends meanwhile, a run can still resume from the newest.
  for (const fs::path& path : std::views::reverse(paths)) {
    const std::int64_t own = *checkpoint_iteration(path);
    const bool is_of_this_run = own <= continued.value_or(-1) && !(own == iteration && is_pinned(path));
    if (is_of_this_run) continue;
    if (!is_own(path)) {
      log_warning(path.string() + " is of another run and not only mn's, so it stays: --resume auto may take it");
      continue;
    }
    const fs::path to = path_aside(path);
    fs::rename(path, to);
    if (best.filename() == path.filename()) mark_best(out, to);
    names += (names.empty() ? "" : ", ") + to.filename().string();
  }
  if (!names.empty()) {
    log_warning((out / kFolder).string() + " has checkpoints of a run that this one does not continue: they are now " +
                names + ", which count neither for --keep nor for --resume auto");
  }
}

bool is_kept(const fs::path& out, const fs::path& checkpoint) {
  const fs::path best = best_of(out);
  return is_pinned(checkpoint) || (!best.empty() && checkpoint_iteration(best) == checkpoint_iteration(checkpoint));
}

void remove_old_checkpoints(const fs::path& out, std::size_t keep) {
  remove_unfinished(out / kFolder);  // first, because a replaced checkpoint's successor may be removed below
  std::vector<fs::path> paths = find_checkpoints(out);
  std::erase_if(paths, [](const fs::path& path) { return !is_own(path); });
  for (std::size_t i = keep; i < paths.size(); ++i) {
    if (!is_kept(out, paths[i])) remove_with_warning(paths[i]);
  }
  remove_abandoned_files(out);
}

void mark_best(const fs::path& out, const fs::path& checkpoint) {
  const fs::path link = out / (std::string(".") + kBest + ".tmp");
  if (best_of(out).empty() && fs::exists(status_of(out / kBest))) {
    throw DataError((out / kBest).string() + " is not a link that mn has made, so it does not become one to " +
                    checkpoint.string() + ": rename it");
  }
  try {
    fs::remove(link);
    fs::create_symlink(fs::path(kFolder) / checkpoint.filename(), link);
    // rename(2) replaces the old link in a single step; therefore readers always find a link.
    fs::rename(link, out / kBest);
  } catch (const fs::filesystem_error& error) {
    throw DataError("cannot make the link " + (out / kBest).string() + ": " + error.code().message());
  }
  sync_folder(out);
}

void restore_best(const fs::path& out, std::int64_t best, std::int64_t iteration) {
  const fs::path marked = best_of(out), own = checkpoint_path(out, best);
  if (marked.filename() == own.filename()) return;
  if (is_committed(own)) return mark_best(out, own);
  if (marked.empty() || checkpoint_iteration(marked).value_or(iteration + 1) <= iteration) return;
  log_warning((out / kBest).string() + " was a link to " + marked.string() +
              ", which is of a run that this one does not continue, and there is no " + own.string() +
              ", this one's best: the link is removed until a report is better");
  std::error_code ignored;
  fs::remove(out / kBest, ignored);
}

}  // namespace mn

#include <mn/checkpoint/format/commit.hpp>

#include <cerrno>
#include <cstdio>
#include <string>
#include <vector>

#include <fcntl.h>
#include <sys/stat.h>

#include <mn/checkpoint/format/saved_checkpoint.hpp>
#include <mn/core/environment.hpp>
#include <mn/core/error.hpp>
#include <mn/core/file.hpp>

namespace mn {
namespace {

namespace fs = std::filesystem;

[[noreturn]] void fail(const std::string& doing, const fs::path& path, int error) {
  throw FileError(with_errno("cannot " + doing + " " + path.string(), error), error);
}

fs::path beside(const fs::path& path, const char* what) {
  return path.parent_path() / ("." + path.filename().string() + what);
}

bool is_shard(const std::string& name) {
  std::size_t shard = 0, shards = 0;
  return std::sscanf(name.c_str(), "shard-%zu-of-%zu", &shard, &shards) == 2 &&
         name == checkpoint_shard_name(shard, shards);
}

bool is_own_file(const std::string& name) {
  return name == kCheckpointManifestName || name == kPinName || is_shard(name) ||
         (name.starts_with(std::string(".") + kCheckpointManifestName + ".") && name.ends_with(".tmp"));
}

bool is_there(const fs::path& path) { return fs::exists(fs::symlink_status(path)); }

/// Returns the files of a checkpoint or of a stopped save in the folder `path`. Throws DataError if the folder holds
/// any other file, because only a checkpoint's own files may be removed (invariant 3).
std::vector<fs::path> own_files(const fs::path& path) {
  constexpr const char* kRemedy = ": give another name, or remove it";
  if (!fs::is_directory(fs::symlink_status(path))) {
    throw DataError(path.string() + " is not the folder of a checkpoint" + kRemedy);
  }
  std::vector<fs::path> files;
  bool has_shard = false, has_manifest = false;
  for (const auto& entry : fs::directory_iterator(path)) {
    const std::string name = entry.path().filename().string();
    if (!is_own_file(name)) {
      throw DataError(path.string() + " holds " + name + ", which is not of a checkpoint" + kRemedy);
    }
    has_shard = has_shard || is_shard(name);
    has_manifest = has_manifest || name == kCheckpointManifestName;
    files.push_back(entry.path());
  }
  if (has_manifest && !has_shard) {
    throw DataError(path.string() + " holds a " + kCheckpointManifestName +
                    " without a shard, which is not of a checkpoint" + kRemedy);
  }
  return files;
}

/// Invariant 2: the folder `folder` gets the name `path` of an old checkpoint. If the file system can exchange names,
/// this is one step; otherwise `path` is absent for a moment.
void take_place(const fs::path& folder, const fs::path& path) {
  fs::path old = folder;
  if (::renameat2(AT_FDCWD, folder.c_str(), AT_FDCWD, path.c_str(), RENAME_EXCHANGE) != 0) {
    old = beside(path, kReplacedEnd);
    if (is_there(old)) remove_checkpoint(old);
    if (std::rename(path.c_str(), old.c_str()) != 0) fail("rename", path, errno);
    if (std::rename(folder.c_str(), path.c_str()) != 0) fail("rename", folder, errno);
  }
  sync_folder(path.parent_path());  // after a power cut, the old name must not lead to an empty folder
  remove_checkpoint(old);
}

void check_size(const fs::path& shard, std::uint64_t bytes) {
  struct stat facts = {};
  if (::lstat(shard.c_str(), &facts) != 0) {
    throw DataError(with_errno("cannot see " + shard.string() + " on " + host_name(), errno) +
                    ": the output folder must be on storage that all nodes share");
  }
  if (static_cast<std::uint64_t>(facts.st_size) != bytes) {
    throw DataError(shard.string() + " has " + std::to_string(facts.st_size) + " bytes where " + std::to_string(bytes) +
                    " were written: the output folder must be on storage that all nodes share");
  }
}

}  // namespace

fs::path begin_save(const fs::path& path) {
  make_folders(path.parent_path());
  // Invariant 2: an old checkpoint stays until the new one is complete. Therefore the new one is written to a folder
  // beside it.
  if (is_there(path)) static_cast<void>(own_files(path));
  const fs::path folder = is_committed(path) ? beside(path, kReplacingEnd) : path;
  if (is_there(folder)) remove_checkpoint(folder);
  if (::mkdir(folder.c_str(), 0777) != 0) fail("make the folder", folder, errno);
  return folder;
}

void commit_save(const fs::path& folder, const fs::path& path, const Manifest& manifest) {
  // All ranks have written and synced their shards. The sizes are checked, because a resume would take a shard of a
  // wrong size as damaged.
  for (std::size_t i = 0; i < manifest.shards.size(); ++i) {
    check_size(folder / checkpoint_shard_name(i, manifest.shards.size()), manifest.shards[i].bytes);
  }
  write_file(folder / kCheckpointManifestName, manifest_text(manifest));  // invariant 1: commits the checkpoint
  folder != path ? take_place(folder, path) : sync_folder(path.parent_path());
}

void abandon_save(const fs::path& folder) noexcept {
  try {
    remove_checkpoint(folder);
  } catch (const std::exception&) {
    // If the folder cannot be removed, it stays. The next save to this path removes the folder, or reports an error.
  }
}

bool is_own(const fs::path& path) {
  try {
    static_cast<void>(own_files(path));
    return true;
  } catch (const DataError&) {
    return false;
  } catch (const fs::filesystem_error&) {
    return false;  // the storage fails
  }
}

void remove_checkpoint(const fs::path& path) {
  try {
    const std::vector<fs::path> files = own_files(path);  // invariant 3: throws before the first removal
    fs::remove(path / kCheckpointManifestName);
    for (const fs::path& file : files) fs::remove(file);
    fs::remove(path);
  } catch (const fs::filesystem_error& error) {
    throw DataError("cannot remove " + path.string() + ": " + error.code().message());
  }
}

}  // namespace mn

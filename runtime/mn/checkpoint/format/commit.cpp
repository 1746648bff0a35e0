#include <cerrno>
#include <cstdio>
#include <string>
#include <string_view>
#include <system_error>
#include <vector>

#include <fcntl.h>
#include <sys/stat.h>

#include <mn/checkpoint/format/commit.hpp>
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

bool is_own_file(const fs::path& path) {
  const std::string name = path.filename().string();
  return name == kManifestName || name == kPinName || (name.starts_with("shard-") && name.ends_with(".safetensors")) ||
         (name.starts_with(std::string(".") + kManifestName + ".") && name.ends_with(".tmp"));
}

/// (3): throws where the folder holds another's file.
std::vector<fs::path> own_files(const fs::path& folder) {
  std::vector<fs::path> files;
  for (const auto& entry : fs::directory_iterator(folder)) {
    if (!is_own_file(entry.path())) {
      throw DataError(folder.string() + " holds " + entry.path().filename().string() +
                      ", which is not of a checkpoint: give another name, or remove it");
    }
    files.push_back(entry.path());
  }
  return files;
}

bool is_there(const fs::path& path) { return fs::exists(fs::symlink_status(path)); }

/// (2): in one step where the file system can exchange names; else `path` is absent for a moment.
void take_place(const fs::path& folder, const fs::path& path) {
  fs::path old = folder;
  if (::renameat2(AT_FDCWD, folder.c_str(), AT_FDCWD, path.c_str(), RENAME_EXCHANGE) != 0) {
    old = beside(path, kReplacedEnd);
    if (is_there(old)) remove_checkpoint(old);
    if (std::rename(path.c_str(), old.c_str()) != 0) fail("rename", path, errno);
    if (std::rename(folder.c_str(), path.c_str()) != 0) fail("rename", folder, errno);
  }
  sync_folder(path.parent_path());  // a power cut must not bring back the old name without the files that go now
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
  // (2) What is a checkpoint stays until the new one is whole; the rest of a stopped save goes.
  const bool replaces = is_there(path) && (!fs::is_directory(fs::symlink_status(path)) || is_committed(path));
  const fs::path folder = replaces ? beside(path, kReplacingEnd) : path;
  if (is_there(folder)) remove_checkpoint(folder);
  if (::mkdir(folder.c_str(), 0777) != 0) fail("make the folder", folder, errno);
  return folder;
}

void commit_save(const fs::path& folder, const fs::path& path, const Manifest& manifest) {
  // Other ranks have written and synced them: if this one sees less, so would a job that resumes.
  for (std::size_t i = 0; i < manifest.shards.size(); ++i) {
    check_size(folder / shard_name(i, manifest.shards.size()), manifest.shards[i].bytes);
  }
  write_file(folder / kManifestName, manifest_text(manifest));  // (1): commits it
  folder != path ? take_place(folder, path) : sync_folder(path.parent_path());
}

void abandon_save(const fs::path& folder) noexcept {
  try {
    remove_checkpoint(folder);
  } catch (const std::exception&) {
    // The next save of this path removes it, or says why it can't.
  }
}

void remove_checkpoint(const fs::path& path) {
  try {
    if (!fs::is_directory(fs::symlink_status(path))) {
      fs::remove(path);
      return;
    }
    const std::vector<fs::path> files = own_files(path);  // throws before the first is gone (3)
    fs::remove(path / kManifestName);
    for (const fs::path& file : files) fs::remove(file);
    fs::remove(path);
  } catch (const fs::filesystem_error& error) {
    throw DataError("cannot remove " + path.string() + ": " + error.code().message());
  }
}

}  // namespace mn

#include "data/mncheck/commands.hpp"

#include <cerrno>
#include <cstdio>
#include <iostream>
#include <span>
#include <string>
#include <utility>

#include <sys/file.h>

#include <mn/checkpoint/format/checkpoint_folder.hpp>
#include <mn/checkpoint/format/safetensors_header.hpp>
#include <mn/checkpoint/format/saved_checkpoint.hpp>
#include <mn/core/error.hpp>
#include <mn/core/fd.hpp>
#include <mn/core/file.hpp>
#include <mn/core/lock_file.hpp>

namespace mn::check {
namespace {

namespace fs = std::filesystem;

constexpr const char* kModelPrefix = "model/";

std::uint64_t bytes_of(const SavedCheckpoint& checkpoint) {
  std::uint64_t bytes = 0;
  for (const SavedShard& shard : checkpoint.manifest().shards) bytes += shard.bytes;
  return bytes;
}

void print_row(const fs::path& path) {
  const fs::path out = path.parent_path().parent_path();
  const SavedCheckpoint checkpoint(path);
  const nlohmann::json& about = checkpoint.manifest().about;
  std::printf("%-16s iteration %lld, epoch %.3f, %zu ranks, %.1f MiB, %zu tensors%s\n", path.filename().c_str(),
              static_cast<long long>(about.value("iteration", std::int64_t{0})), about.value("epoch_detail", 0.0),
              checkpoint.ranks(), static_cast<double>(bytes_of(checkpoint)) / (1 << 20),
              checkpoint.manifest().tensors.size(), is_kept(out, path) ? ", kept" : "");
}

/// An absolute path without a slash or a dot at its end.
fs::path tidy(const fs::path& path) { return (fs::absolute(path) / "").lexically_normal().parent_path(); }

/// The output folder with the checkpoints at `path`: `path` itself, or the folder above. Only the output folder has the
/// lock and the record of the best checkpoints.
fs::path output_folder_at(const fs::path& path) {
  const fs::path newest = checkpoints_at(path).front();
  fs::path out = tidy(path);
  if (newest == path) throw UsageError(path.string() + " is not the output folder of a job, but a checkpoint");
  if (newest.parent_path() == path / "ckpt") return out;
  if (out.filename() == "ckpt") return out.parent_path();
  throw UsageError(path.string() + " is not the output folder of a job, which has its checkpoints in ckpt");
}

/// Number of the newest checkpoints among which `whole` are undamaged; all checkpoints if fewer are undamaged.
std::size_t count_of_newest(const fs::path& out, std::size_t whole) {
  const std::vector<fs::path> found = find_checkpoints(out);
  std::size_t count = 0;
  for (; count < found.size() && whole > 0; ++count) {
    try {
      (void)read_checkpoint_info(found[count]);
      --whole;
    } catch (const DataError& error) {
      std::cout << found[count].filename().string() << ": " << error.what() << '\n';
    }
  }
  return count;
}

/// Locks out jobs: an unfinished save of a running job looks like the leftovers of a stopped job. Empty if no job has
/// run here.
Fd lock_of_jobs(const fs::path& out) {
  const fs::path path = out / ".lock";  // mn/trainer/output_folder.hpp
  Fd lock = open_lock_file(path, 0, 0);
  if (!lock && errno != ENOENT) throw DataError(with_errno("cannot open " + path.string(), errno));
  if (lock && ::flock(lock.get(), LOCK_EX | LOCK_NB) != 0 && errno == EWOULDBLOCK) {
    throw DataError("a job writes to " + out.string() + ", and removes old checkpoints itself: prune once it is over");
  }
  return lock;
}

/// The names of the tensors for a merged file: in the checkpoint, and in the file.
std::vector<std::pair<std::string, std::string>> names_to_merge(const Manifest& manifest, bool all) {
  const std::string prefix = all ? "" : kModelPrefix;
  std::vector<std::pair<std::string, std::string>> names;
  for (const auto& [name, tensor] : manifest.tensors) {
    if (name.starts_with(prefix)) names.emplace_back(name, name.substr(prefix.size()));
  }
  return names;
}

}  // namespace

std::vector<fs::path> checkpoints_at(const fs::path& path) {
  if (is_committed(path)) return {path};
  std::vector<fs::path> found = find_checkpoints(path);
  if (found.empty() && tidy(path).filename() == "ckpt") found = find_checkpoints(tidy(path).parent_path());
  if (found.empty()) throw DataError("there is no checkpoint in " + path.string());
  return found;
}

int list(const fs::path& path) {
  for (const fs::path& each : checkpoints_at(path)) {
    try {
      print_row(each);
    } catch (const DataError& error) {
      std::cout << each.filename().string() << ": " << error.what() << '\n';
    }
  }
  return 0;
}

int verify(const fs::path& path) {
  int status = 0;
  for (const fs::path& each : checkpoints_at(path)) {
    try {
      (void)read_checkpoint_info(each);
      std::cout << each.string() << ": whole" << std::endl;
    } catch (const DataError& error) {
      const bool is_there = is_committed(each);  // a job removes old checkpoints
      std::cout << each.string() << ": " << (is_there ? error.what() : "removed meanwhile") << std::endl;
      if (is_there) status = 1;
    }
  }
  return status;
}

int prune(const fs::path& path, const Settings& settings) {
  const fs::path out = output_folder_at(path);
  const Fd lock = lock_of_jobs(out);
  remove_old_checkpoints(out, count_of_newest(out, static_cast<std::size_t>(settings.keep)));
  for (const fs::path& each : find_checkpoints(out)) std::cout << each.filename().string() << '\n';
  return 0;
}

int merge(const fs::path& path, const Settings& settings) {
  if (settings.output.empty()) throw UsageError("mncheck merge needs --output FILE");
  const fs::path folder = fs::path(settings.output).parent_path();
  if (!folder.empty() && is_committed(folder)) {
    throw UsageError(settings.output + " would lie in the checkpoint " + folder.string() + ": name another file");
  }
  SavedCheckpoint checkpoint(checkpoints_at(path).front());
  const Manifest& manifest = checkpoint.manifest();
  const auto names = names_to_merge(manifest, settings.all);
  nlohmann::json header = {{"__metadata__", {{"format", "pt"}}}}, complex;
  std::uint64_t end = 0;
  for (const auto& [name, merged] : names) {
    const SavedTensor& tensor = manifest.tensors.at(name);
    header[merged] = {{"dtype", tensor.dtype}, {"shape", tensor.shape}, {"data_offsets", {end, end + tensor.bytes()}}};
    end += tensor.bytes();
    if (tensor.is_complex) complex.push_back(merged);
  }
  if (!complex.is_null()) header["__metadata__"][kComplexKey] = complex.dump();
  AtomicFile file(settings.output);
  file.write(safetensors_header(header));
  std::vector<std::byte> bytes;
  for (const auto& [name, merged] : names) {
    bytes.resize(manifest.tensors.at(name).bytes());
    checkpoint.read(name, bytes);
    file.write(bytes);
  }
  file.commit();
  std::cout << settings.output << ": " << names.size() << " tensors of " << checkpoint.folder().string() << '\n';
  return 0;
}

}  // namespace mn::check

// mncheck inspects checkpoints. The function of each command returns the exit status; it may throw mn::Error.
#include <cerrno>
#include <cmath>
#include <cstdio>
#include <cstring>
#include <iostream>
#include <set>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include <sys/file.h>

#include <mn/checkpoint/format/checkpoint_folder.hpp>
#include <mn/checkpoint/format/safetensors_header.hpp>
#include <mn/checkpoint/format/saved_checkpoint.hpp>
#include <mn/core/error.hpp>
#include <mn/core/fd.hpp>
#include <mn/core/file.hpp>
#include <mn/core/lock_file.hpp>
#include <mn/core/tool.hpp>

#include "data/mncheck/checkpoint_options.hpp"

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

/// Returns the absolute path without a slash or a dot at its end.
fs::path tidy(const fs::path& path) { return (fs::absolute(path) / "").lexically_normal().parent_path(); }

/// Returns `path` if it is a checkpoint, otherwise the checkpoints of the output folder `path`, newest first.
std::vector<fs::path> checkpoints_at(const fs::path& path) {
  if (is_committed(path)) return {path};
  std::vector<fs::path> found = find_checkpoints(path);
  if (found.empty() && tidy(path).filename() == "ckpt") found = find_checkpoints(tidy(path).parent_path());
  if (found.empty()) throw DataError("there is no checkpoint in " + path.string());
  return found;
}

/// The output folder of the checkpoints at `path`: `path` itself, or its parent. Only this folder has the lock and the
/// record of the best checkpoints.
fs::path output_folder_at(const fs::path& path) {
  const fs::path newest = checkpoints_at(path).front();
  fs::path out = tidy(path);
  if (newest == path) throw UsageError(path.string() + " is not the output folder of a job, but a checkpoint");
  if (newest.parent_path() == path / "ckpt") return out;
  if (out.filename() == "ckpt") return out.parent_path();
  throw UsageError(path.string() + " is not the output folder of a job, which has its checkpoints in ckpt");
}

/// Returns how many of the newest checkpoints to keep, so that `whole` of them are undamaged; all if there are fewer.
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

/// Locks jobs out of the output folder. Without the lock, an unfinished save might be of a running job. Returns an
/// empty Fd if no job has run in the folder.
Fd lock_of_jobs(const fs::path& out) {
  const fs::path path = out / ".lock";  // mn/trainer/output_folder.hpp
  Fd lock = open_lock_file(path, 0, 0);
  if (!lock && errno != ENOENT) throw DataError(with_errno("cannot open " + path.string(), errno));
  if (lock && ::flock(lock.get(), LOCK_EX | LOCK_NB) != 0 && errno == EWOULDBLOCK) {
    throw DataError("a job writes to " + out.string() + ", and removes old checkpoints itself: prune once it is over");
  }
  return lock;
}

/// For each tensor of a merged file: its name in the checkpoint, and its name in the file.
std::vector<std::pair<std::string, std::string>> names_to_merge(const Manifest& manifest, bool all) {
  const std::string prefix = all ? "" : kModelPrefix;
  std::vector<std::pair<std::string, std::string>> names;
  for (const auto& [name, tensor] : manifest.tensors) {
    if (name.starts_with(prefix)) names.emplace_back(name, name.substr(prefix.size()));
  }
  return names;
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
      const bool is_there = is_committed(each);  // false: a running job has removed an old checkpoint
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

std::vector<std::byte> tensor_bytes(SavedCheckpoint& checkpoint, const std::string& name) {
  std::vector<std::byte> bytes(checkpoint.manifest().tensors.at(name).bytes());
  checkpoint.read(name, bytes);
  return bytes;
}

std::string form(const SavedTensor& tensor) { return tensor.dtype + " " + nlohmann::json(tensor.shape).dump(); }

/// Text for the largest difference of two tensors, and for the largest number in the first tensor; empty unless `dtype`
/// names T. NaNs count as no difference.
template <class T>
std::string largest_difference(const std::string& dtype, const char* name, std::span<const std::byte> x,
                               std::span<const std::byte> y) {
  if (dtype != name) return "";
  double difference = 0, number = 0;
  for (std::size_t i = 0; i < x.size(); i += sizeof(T)) {
    T a, b;
    std::memcpy(&a, &x[i], sizeof a);
    std::memcpy(&b, &y[i], sizeof b);
    difference = std::fmax(difference, std::fabs(static_cast<double>(a) - static_cast<double>(b)));
    number = std::fmax(number, std::fabs(static_cast<double>(a)));
  }
  char text[80];
  std::snprintf(text, sizeof text, ", by at most %.3g; the largest number is %.3g", difference, number);
  return text;
}

/// How tensor `name` differs between two checkpoints; empty if the values are equal, however they are stored.
std::string difference(SavedCheckpoint& a, SavedCheckpoint& b, const std::string& name) {
  const auto& in_a = a.manifest().tensors;
  const auto& in_b = b.manifest().tensors;
  const auto first = in_a.find(name), second = in_b.find(name);
  if (second == in_b.end()) return "only in " + a.folder().string();
  if (first == in_a.end()) return "only in " + b.folder().string();
  if (form(first->second) != form(second->second)) return form(first->second) + " and " + form(second->second);
  const auto x = tensor_bytes(a, name), y = tensor_bytes(b, name);
  const std::size_t wide = safetensors_element_bytes(first->second.dtype);
  std::size_t differing = 0;
  for (std::size_t i = 0; i < x.size(); i += wide) differing += std::memcmp(&x[i], &y[i], wide) != 0 ? 1 : 0;
  if (differing == 0) return "";
  return std::to_string(differing) + " of " + std::to_string(x.size() / wide) + " elements differ" +
         largest_difference<float>(first->second.dtype, "F32", x, y) +
         largest_difference<double>(first->second.dtype, "F64", x, y);
}

int diff(const fs::path& a, const fs::path& b) {
  SavedCheckpoint first(checkpoints_at(a).front()), second(checkpoints_at(b).front());
  std::set<std::string> names;
  for (const SavedCheckpoint* each : {&first, &second}) {
    for (const auto& [name, tensor] : each->manifest().tensors) names.insert(name);
  }
  int status = 0;
  for (const std::string& name : names) {
    const std::string what = difference(first, second, name);
    if (what.empty()) continue;
    std::cout << name << ": " << what << '\n';
    status = 1;
  }
  return status;
}

int run_command(const std::vector<std::string>& words, const Settings& settings) {
  const std::string command = words.empty() ? "" : words.front();
  const std::size_t arguments = words.size() - 1;
  if (command == "list" && arguments == 1) return list(words[1]);
  if (command == "verify" && arguments == 1) return verify(words[1]);
  if (command == "prune" && arguments == 1) return prune(words[1], settings);
  if (command == "merge" && arguments == 1) return merge(words[1], settings);
  if (command == "diff" && arguments == 2) return diff(words[1], words[2]);
  throw UsageError("give list DIR, verify DIR, diff A B, prune OUT or merge DIR; see mncheck --help");
}

int run(int argc, char** argv) {
  Settings settings;
  Options options = make_options(settings);
  std::vector<std::string> words;
  const auto action = options.parse(argc, argv, &words);
  if (action == Options::Action::kVersion) return std::cout << "mncheck " MN_VERSION "\n", 0;
  if (action == Options::Action::kHelp) return std::cout << options.help(), 0;
  return run_command(words, settings);
}

}  // namespace
}  // namespace mn::check

int main(int argc, char** argv) {
  return mn::run_tool("mncheck", [&] { return mn::check::run(argc, argv); });
}

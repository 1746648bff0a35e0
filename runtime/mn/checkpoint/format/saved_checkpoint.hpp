/// A checkpoint on storage, read without libtorch and MPI. All calls are local.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>

#include <mn/checkpoint/format/checkpoint_manifest.hpp>
#include <mn/core/error.hpp>
#include <mn/core/file.hpp>

namespace mn {

/// Whether the system's reason says that the storage fails, or this process may not read: not that a file is absent or
/// damaged.
[[nodiscard]] bool is_of_storage(const FileError& error) noexcept;

/// For the handler of `error`: warns and waits before the next attempt, or rethrows it if there is none.
void wait_to_retry(const FileError& error, int attempt);

/// Returns work(). Where the storage fails, it tries again after half a second and after two, with a warning.
template <class Work>
decltype(auto) with_retries(const Work& work) {
  for (int attempt = 0;; ++attempt) {
    try {
      return work();
    } catch (const FileError& error) {
      wait_to_retry(error, attempt);
    }
  }
}

/// Reads tensors one by one into the caller's memory. Every error is a DataError that names the file, the tensor, the
/// damage and the remedy; where the storage fails, again and again, FileError. Symbolic links in the folder are errors.
/// One thread at a time.
class SavedCheckpoint {
 public:
  /// Reads and checks the manifest.
  explicit SavedCheckpoint(const std::filesystem::path& folder);
  /// The same with the manifest's text, which another rank has read.
  SavedCheckpoint(std::filesystem::path folder, std::string_view text);
  /// The text of the manifest; an error if the file is missing: `folder` is then not a checkpoint.
  [[nodiscard]] static std::string read_text(const std::filesystem::path& folder);

  [[nodiscard]] const std::filesystem::path& folder() const noexcept { return folder_; }
  [[nodiscard]] const Manifest& manifest() const noexcept { return manifest_; }
  /// Ranks that have saved it.
  [[nodiscard]] std::size_t ranks() const noexcept { return manifest_.shards.size(); }

  /// The tensor's bytes in row-major order, as many as `out` has, once the checksums were found right.
  void read(const std::string& tensor, std::span<std::byte> out);
  /// Reads one shard, all its bytes, with 4 MiB of memory.
  void check_shard(std::size_t shard);
  /// The same of all shards.
  void check();

 private:
  [[nodiscard]] static std::string read_text_once(const std::filesystem::path& folder);
  [[nodiscard]] const File& open(std::size_t shard);
  void check_header(std::size_t shard);
  [[noreturn]] void damaged(std::size_t shard, const std::string& how) const;

  std::filesystem::path folder_;
  Manifest manifest_;
  std::optional<std::pair<std::size_t, File>> opened_;  // the shard of the last read
};

/// What lies at `path`, or a link there by itself. FileError where that can't be told: what a file server does not show
/// for a moment is not absent.
[[nodiscard]] std::filesystem::file_status status_of(const std::filesystem::path& path);

/// Whether the folder holds a manifest. FileError as above.
[[nodiscard]] bool is_committed(const std::filesystem::path& folder);

}  // namespace mn

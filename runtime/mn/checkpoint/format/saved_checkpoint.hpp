/// Reads a checkpoint from storage, without libtorch and MPI. No call is collective.
#pragma once

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

/// True if the storage fails, or if the process has no permission to read. False if the file is absent or damaged.
[[nodiscard]] bool is_of_storage(const FileError& error) noexcept;

/// Call it in the catch block of `error`: warns and waits before the next attempt. Rethrows the error after the last
/// attempt, and if the error does not come from the storage (is_of_storage(error) is false).
void wait_to_retry(const FileError& error, int attempt);

/// Returns work(). If the storage fails, warns and calls `work` again after half a second, and after two more.
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

/// Reads tensors one by one into the caller's memory. If the checkpoint is damaged, throws a DataError that names the
/// file, the tensor, the damage and the remedy. If the storage fails in every attempt, throws a FileError. Symbolic
/// links in the folder are errors. Only one thread at a time may use an object.
class SavedCheckpoint {
 public:
  /// Reads and checks the manifest.
  explicit SavedCheckpoint(const std::filesystem::path& folder);
  /// Checks the text of a manifest after a different rank has read the text.
  SavedCheckpoint(std::filesystem::path folder, std::string_view text);
  /// Reads the text of the manifest. A folder without a manifest is not a checkpoint: throws DataError.
  [[nodiscard]] static std::string read_text(const std::filesystem::path& folder);

  [[nodiscard]] const std::filesystem::path& folder() const noexcept { return folder_; }
  [[nodiscard]] const Manifest& manifest() const noexcept { return manifest_; }
  /// Number of ranks that have saved the checkpoint.
  [[nodiscard]] std::size_t ranks() const noexcept { return manifest_.shards.size(); }

  /// Reads and checks a tensor's bytes, in row-major order. Throws ArgumentError if `out` has another size.
  void read(const std::string& tensor, std::span<std::byte> out);
  /// Reads the elements from `begin` on, as many as fit into `out`, without a look at their checksums: call check()
  /// first. Throws ArgumentError if the tensor has fewer elements.
  void read_range(const std::string& tensor, std::uint64_t begin, std::span<std::byte> out);
  /// Reads and checks all bytes of one shard, with 4 MiB of memory.
  void check_shard(std::size_t shard);
  /// Reads and checks all shards.
  void check();

 private:
  [[nodiscard]] const File& open(std::size_t shard);
  template <class RoomFor>
  void read_piece(const std::string& name, const SavedTensor& tensor, const SavedPiece& piece, const RoomFor& room_for);
  void check_header(std::size_t shard);
  [[noreturn]] void damaged(std::size_t shard, const std::string& how) const;

  std::filesystem::path folder_;
  Manifest manifest_;
  std::optional<std::pair<std::size_t, File>> opened_;  // the shard that was read last
};

/// Returns the status of `path`. Throws FileError if the storage fails, because a file must not look absent only for
/// this reason.
[[nodiscard]] std::filesystem::file_status status_of(const std::filesystem::path& path);

/// True if the folder is a checkpoint, that is, holds a manifest. Throws FileError if the storage fails.
[[nodiscard]] bool is_committed(const std::filesystem::path& folder);

}  // namespace mn

/// Unpacks files that gzip, zstd or xz has packed.
#pragma once

#include <cstddef>
#include <filesystem>
#include <memory>
#include <span>

namespace mn::data {

/// Reads the content of a packed file from beginning to end.
class PackedFile {
 public:
  PackedFile() = default;
  virtual ~PackedFile() = default;
  PackedFile(const PackedFile&) = delete;
  PackedFile& operator=(const PackedFile&) = delete;

  /// Fills `out` with the next unpacked bytes and returns their number. It is less than out.size() only at the end of
  /// the file. Throws a DataError that names the file if it is damaged.
  virtual std::size_t read(std::span<std::byte> out) = 0;
};

/// Whether the file begins like a gzip, zstd or xz file.
[[nodiscard]] bool is_packed(const std::filesystem::path& file);

/// Opens a file for which is_packed() is true. If the file can't be read, or if this build lacks the library that
/// unpacks it, throws a DataError that names the file.
[[nodiscard]] std::unique_ptr<PackedFile> open_packed(const std::filesystem::path& file);
/// open_packed() for a zstd file.
[[nodiscard]] std::unique_ptr<PackedFile> open_zstd(const std::filesystem::path& file);
/// open_packed() for an xz file.
[[nodiscard]] std::unique_ptr<PackedFile> open_xz(const std::filesystem::path& file);

/// Unpacks `file` to `unpacked`, and waits until `unpacked` is on stable storage. Throws the errors of open_packed().
void unpack(const std::filesystem::path& file, const std::filesystem::path& unpacked);

}  // namespace mn::data

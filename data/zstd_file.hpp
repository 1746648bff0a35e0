/// Reads a zstd file from beginning to end, and unpacks it by libzstd.
#pragma once

#include <cstddef>
#include <filesystem>
#include <memory>
#include <span>

namespace mn::data {

class ZstdFile {
 public:
  /// Throws DataError if the file can't be opened. In a build without libzstd, throws a DataError that names libzstd.
  explicit ZstdFile(const std::filesystem::path& path);
  ~ZstdFile();
  ZstdFile(ZstdFile&&) noexcept;

  /// Fills `out` with the next bytes and returns their number, which is less than out.size() only at the end of the
  /// file. Throws DataError if the file can't be read or is damaged.
  std::size_t read(std::span<std::byte> out);

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace mn::data

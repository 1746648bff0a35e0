/// Arrays as numpy writes them, alone or as members of ZIP archives: magic, version, a Python dictionary with dtype,
/// order and shape, then the elements.
/// Source: numpy.lib.format, NEP 1.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include <mn/core/file.hpp>
#include <mn/core/zip.hpp>

namespace mn::data {

/// Longer headers belong to arrays of records, which are not read.
inline constexpr std::size_t kMaxNpyHeaderBytes = 1 << 16;

struct NpyHeader {
  char kind = 'u';             ///< numpy's: b bool, i int, u unsigned, f float
  std::size_t item_bytes = 1;  ///< size of an element
  bool big_endian = false;
  bool fortran = false;  ///< the first index varies fastest
  std::vector<std::int64_t> shape;
  std::size_t header_bytes = 0;  ///< the elements follow

  /// numpy's name of the dtype: "float32".
  [[nodiscard]] std::string dtype() const;
  /// Elements of one row, the part of the array with one first index.
  [[nodiscard]] std::int64_t row_elements() const;
  [[nodiscard]] std::int64_t row_bytes() const { return row_elements() * static_cast<std::int64_t>(item_bytes); }
};

/// `begin`: the first kMaxNpyHeaderBytes of the file, or all of it. `file_bytes`: its length. Throws DataError that
/// begins with `file` unless the file is a whole array of numbers.
[[nodiscard]] NpyHeader parse_npy_header(std::span<const std::byte> begin, std::uint64_t file_bytes,
                                         const std::string& file);

/// An array in a file, or in a part of one. Thread-safe.
class NpyArray {
 public:
  /// Bytes [begin, begin + bytes) of `file`, called `name` in messages. Throws as parse_npy_header() does.
  NpyArray(std::shared_ptr<const File> file, std::uint64_t begin, std::uint64_t bytes, std::string name);

  [[nodiscard]] const std::string& name() const noexcept { return name_; }
  [[nodiscard]] const NpyHeader& header() const noexcept { return header_; }
  [[nodiscard]] std::int64_t rows() const { return header_.shape.at(0); }
  /// Rows [first, last) in C order, little endian.
  void read_rows(std::int64_t first, std::int64_t last, std::span<std::byte> out) const;

 private:
  void read_fortran(std::int64_t first, std::int64_t last, std::span<std::byte> out) const;

  std::shared_ptr<const File> file_;
  std::string name_;
  NpyHeader header_;
  std::uint64_t elements_at_;  // in the file
};

[[nodiscard]] NpyArray open_npy(const std::filesystem::path& path);

/// Writes the content of a deflated member to the file `path`. Throws DataError that begins with the archive's path
/// if the member is damaged.
void unzip(const File& archive, const ZipMember& member, const std::filesystem::path& path);

}  // namespace mn::data

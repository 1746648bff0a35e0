/// Reads arrays that numpy has written, in .npy files or as members of ZIP archives (.npz). An array is magic bytes, a
/// version, a Python dictionary with dtype, order and shape, and then the elements. Source: numpy.lib.format, NEP 1.
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

/// Largest length of a header. Only arrays of records, which mn does not read, have longer headers.
inline constexpr std::size_t kMaxNpyHeaderBytes = 1 << 16;

struct NpyHeader {
  char kind = 'u';             ///< numpy's letter: b bool, i int, u unsigned, f float
  std::size_t item_bytes = 1;  ///< size of an element
  bool big_endian = false;
  bool fortran = false;  ///< Fortran order: the first index varies fastest
  std::vector<std::int64_t> shape;
  std::size_t header_bytes = 0;  ///< offset of the elements in the file or member

  /// numpy's name of the dtype, such as "float32".
  [[nodiscard]] std::string dtype() const;
  /// A row is all elements with the same first index.
  [[nodiscard]] std::int64_t row_elements() const;
  [[nodiscard]] std::int64_t row_bytes() const { return row_elements() * static_cast<std::int64_t>(item_bytes); }
};

/// Parses the header. `begin` is the first kMaxNpyHeaderBytes bytes of the file, or the whole file; `file_bytes` is its
/// length. Unless the file is a whole array of numbers, throws a DataError that begins with `file`.
[[nodiscard]] NpyHeader parse_npy_header(std::span<const std::byte> begin, std::uint64_t file_bytes,
                                         const std::string& file);

/// An array in a file, or in a part of a file. Thread-safe.
class NpyArray {
 public:
  /// Opens the array in bytes [begin, begin + bytes) of `file`. Error texts call it `name`. Throws like
  /// parse_npy_header().
  NpyArray(std::shared_ptr<const File> file, std::uint64_t begin, std::uint64_t bytes, std::string name);

  [[nodiscard]] const std::string& name() const noexcept { return name_; }
  [[nodiscard]] const NpyHeader& header() const noexcept { return header_; }
  [[nodiscard]] std::int64_t rows() const { return header_.shape.at(0); }
  /// Reads rows [first, last) in C order, little endian.
  void read_rows(std::int64_t first, std::int64_t last, std::span<std::byte> out) const;

 private:
  void read_fortran(std::int64_t first, std::int64_t last, std::span<std::byte> out) const;

  std::shared_ptr<const File> file_;
  std::string name_;
  NpyHeader header_;
  std::uint64_t elements_at_;  // offset of the first element
};

[[nodiscard]] NpyArray open_npy(const std::filesystem::path& path);

/// Unpacks a deflated member of a ZIP archive into the file `path`. Throws a DataError that begins with the archive's
/// path if the member is damaged.
void unzip(const File& archive, const ZipMember& member, const std::filesystem::path& path);

}  // namespace mn::data

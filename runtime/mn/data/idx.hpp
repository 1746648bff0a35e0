/// IDX, the format of MNIST's files (yann.lecun.com/exdb/mnist). A file has the bytes 0, 0, TYPE and DIMS, then DIMS
/// extents as big-endian numbers, then the elements.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <span>
#include <string>
#include <vector>

namespace mn::data {

struct IdxArray {
  std::vector<std::int64_t> shape;
  std::span<const std::byte> bytes;  ///< the elements; points into the parsed bytes
};

/// Parses the content of a file. Throws a DataError that begins with `file` unless the content is an array of unsigned
/// bytes with at least `dims` dimensions (exactly 1 if `dims` is 1).
[[nodiscard]] IdxArray parse_idx(std::span<const std::byte> content, std::size_t dims, const std::string& file);

/// Reads a whole file and unpacks it if it is gzip. Throws DataError if the file can't be read or is damaged.
[[nodiscard]] std::vector<std::byte> read_maybe_gzip(const std::filesystem::path& path);

}  // namespace mn::data

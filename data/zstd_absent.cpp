// Replaces unpack_zstd.cpp in builds without libzstd.
#include "data/unpack.hpp"

#include <mn/core/error.hpp>

namespace mn::data {

std::unique_ptr<PackedFile> open_zstd(const std::filesystem::path& file) {
  throw DataError(file.string() +
                  " is packed by zstd, and mn was built without libzstd: install it (libzstd-dev) and build mn again, "
                  "or unpack the file with `zstd -d`");
}

}  // namespace mn::data

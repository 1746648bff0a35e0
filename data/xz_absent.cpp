// Replaces unpack_xz.cpp in builds without liblzma.
#include "data/unpack.hpp"

#include <mn/core/error.hpp>

namespace mn::data {

std::unique_ptr<PackedFile> open_xz(const std::filesystem::path& file) {
  throw DataError(file.string() +
                  " is packed by xz, and mn was built without liblzma: install it (liblzma-dev) and build mn again, or "
                  "unpack the file with `xz -d`");
}

}  // namespace mn::data

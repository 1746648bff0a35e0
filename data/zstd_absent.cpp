// Replaces zstd_file.cpp in builds without libzstd.
#include "data/zstd_file.hpp"

#include <mn/core/error.hpp>

namespace mn::data {

struct ZstdFile::State {};

ZstdFile::ZstdFile(const std::filesystem::path& path) {
  throw DataError(path.string() +
                  " is packed by zstd, and mn was built without libzstd: install it (libzstd-dev) and build mn again, "
                  "or unpack the file with `zstd -d`");
}
ZstdFile::~ZstdFile() = default;
ZstdFile::ZstdFile(ZstdFile&&) noexcept = default;
std::size_t ZstdFile::read(std::span<std::byte>) { return 0; }  // never called: the constructor throws

}  // namespace mn::data

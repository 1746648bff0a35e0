#include "data/unpack.hpp"

#include <string>
#include <string_view>
#include <vector>

#include <mn/core/file.hpp>
#include <mn/core/file_kind.hpp>
#include <mn/data/gzip_file.hpp>

namespace mn::data {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kGzip = "\x1F\x8B";
constexpr std::string_view kZstd = "\x28\xB5\x2F\xFD";

std::string begin_of(const fs::path& file) { return begin_of_file(File(file, File::Mode::kRead)); }

}  // namespace

bool is_packed(const fs::path& file) {
  const std::string begin = begin_of(file);
  return begin.starts_with(kGzip) || begin.starts_with(kZstd);
}

void unpack(const fs::path& file, const fs::path& unpacked) {
  if (begin_of(file).starts_with(kZstd)) return unpack_zstd(file, unpacked);
  constexpr std::size_t kPiece = 4 << 20;
  GzipFile packed(file);
  AtomicFile out(unpacked);
  std::vector<std::byte> piece(kPiece);
  for (std::size_t bytes = kPiece; bytes == kPiece;) {
    bytes = packed.read(piece);
    out.write(std::span(piece).first(bytes));
  }
  out.commit();
}

}  // namespace mn::data

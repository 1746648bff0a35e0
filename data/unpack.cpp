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
using namespace std::string_view_literals;

constexpr std::string_view kGzip = "\x1F\x8B"sv;
constexpr std::string_view kZstd = "\x28\xB5\x2F\xFD"sv;
constexpr std::string_view kXz = "\xFD\x37zXZ\0"sv;

std::string begin_of(const fs::path& file) { return begin_of_file(File(file, File::Mode::kRead)); }

class PackedByGzip final : public PackedFile {
 public:
  explicit PackedByGzip(const fs::path& file) : file_(file) {}
  std::size_t read(std::span<std::byte> out) override { return file_.read(out); }

 private:
  GzipFile file_;
};

}  // namespace

bool is_packed(const fs::path& file) {
  const std::string begin = begin_of(file);
  return begin.starts_with(kGzip) || begin.starts_with(kZstd) || begin.starts_with(kXz);
}

std::unique_ptr<PackedFile> open_packed(const fs::path& file) {
  const std::string begin = begin_of(file);
  if (begin.starts_with(kZstd)) return open_zstd(file);
  if (begin.starts_with(kXz)) return open_xz(file);
  return std::make_unique<PackedByGzip>(file);
}

void unpack(const fs::path& file, const fs::path& unpacked) {
  constexpr std::size_t kPiece = 4 << 20;
  const auto packed = open_packed(file);
  AtomicFile out(unpacked);
  std::vector<std::byte> piece(kPiece);
  for (std::size_t bytes = kPiece; bytes == kPiece;) {
    bytes = packed->read(piece);
    out.write(std::span(piece).first(bytes));
  }
  out.commit();
}

}  // namespace mn::data

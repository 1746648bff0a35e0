#include "data/unpack.hpp"

#include <algorithm>
#include <memory>
#include <string>
#include <vector>

#include <zstd.h>

#include <mn/core/error.hpp>
#include <mn/core/file.hpp>

namespace mn::data {
namespace {

constexpr int kMaxWindowLog = 31;  // the window of `zstd --ultra --long=31`; libzstd's default limit is 27
constexpr std::size_t kPieceBytes = 1 << 20;

[[noreturn]] void damaged(const std::filesystem::path& file, const std::string& what) {
  throw DataError(file.string() + " is damaged or truncated (" + what + "): fetch it again");
}

}  // namespace

void unpack_zstd(const std::filesystem::path& file, const std::filesystem::path& unpacked) {
  const std::unique_ptr<ZSTD_DCtx, std::size_t (*)(ZSTD_DCtx*)> stream(ZSTD_createDCtx(), ZSTD_freeDCtx);
  if (!stream) throw DataError("cannot start libzstd");
  (void)ZSTD_DCtx_setParameter(stream.get(), ZSTD_d_windowLogMax, kMaxWindowLog);
  const File in(file, File::Mode::kRead);
  const std::uint64_t in_bytes = in.size();
  AtomicFile out(unpacked);
  std::vector<std::byte> stored(kPieceBytes), piece(kPieceBytes);
  ZSTD_inBuffer input = {stored.data(), 0, 0};
  std::size_t wanted = 0;  // 0: a frame is complete
  for (std::uint64_t at = 0;;) {
    if (input.pos == input.size) {
      input = {stored.data(), std::min<std::uint64_t>(kPieceBytes, in_bytes - at), 0};
      in.read_at(at, std::span(stored).first(input.size));
      at += input.size;
    }
    const bool has_input = input.size > 0;
    if (!has_input && wanted == 0) break;
    // Even without input, libzstd may still hold unpacked bytes.
    ZSTD_outBuffer output = {piece.data(), piece.size(), 0};
    wanted = ZSTD_decompressStream(stream.get(), &output, &input);
    if (ZSTD_isError(wanted) != 0) damaged(file, ZSTD_getErrorName(wanted));
    if (!has_input && output.pos == 0) damaged(file, "it ends too early");
    out.write(std::span(piece).first(output.pos));
  }
  out.commit();
}

}  // namespace mn::data

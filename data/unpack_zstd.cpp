#include "data/unpack.hpp"

#include <string>

#include <zstd.h>

#include "data/stored_pieces.hpp"

namespace mn::data {
namespace {

constexpr int kMaxWindowLog = 31;  // the window of `zstd --ultra --long=31`; libzstd's default limit is 27

class PackedByZstd final : public PackedFile {
 public:
  explicit PackedByZstd(const std::filesystem::path& path) : stored_(path), stream_(ZSTD_createDCtx(), ZSTD_freeDCtx) {
    if (!stream_) throw DataError("cannot start libzstd");
    (void)ZSTD_DCtx_setParameter(stream_.get(), ZSTD_d_windowLogMax, kMaxWindowLog);
  }

  std::size_t read(std::span<std::byte> out) override {
    ZSTD_outBuffer output = {out.data(), out.size(), 0};
    while (output.pos < output.size) {
      if (input_.pos == input_.size) take_piece();
      const bool has_input = input_.size > 0;
      if (!has_input && wanted_ == 0) break;
      // Even without input, libzstd may still hold unpacked bytes.
      const std::size_t before = output.pos;
      wanted_ = ZSTD_decompressStream(stream_.get(), &output, &input_);
      if (ZSTD_isError(wanted_) != 0) stored_.throw_damaged(ZSTD_getErrorName(wanted_));
      if (!has_input && output.pos == before) stored_.throw_damaged("it ends too early");
    }
    return output.pos;
  }

 private:
  void take_piece() {
    const auto piece = stored_.next();
    input_ = {piece.data(), piece.size(), 0};
  }

  StoredPieces stored_;
  std::unique_ptr<ZSTD_DCtx, std::size_t (*)(ZSTD_DCtx*)> stream_;
  ZSTD_inBuffer input_ = {};
  std::size_t wanted_ = 0;  // 0: a frame is complete
};

}  // namespace

std::unique_ptr<PackedFile> open_zstd(const std::filesystem::path& file) {
  return std::make_unique<PackedByZstd>(file);
}

}  // namespace mn::data

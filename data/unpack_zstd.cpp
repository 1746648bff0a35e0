#include "data/unpack.hpp"

#include <algorithm>
#include <string>
#include <vector>

#include <zstd.h>

#include <mn/core/error.hpp>
#include <mn/core/file.hpp>

namespace mn::data {
namespace {

constexpr int kMaxWindowLog = 31;  // the window of `zstd --ultra --long=31`; libzstd's default limit is 27

class PackedByZstd final : public PackedFile {
 public:
  explicit PackedByZstd(const std::filesystem::path& path)
      : file_(path, File::Mode::kRead), stream_(ZSTD_createDCtx(), ZSTD_freeDCtx), stored_(kStoredBytes) {
    if (!stream_) throw DataError("cannot start libzstd");
    (void)ZSTD_DCtx_setParameter(stream_.get(), ZSTD_d_windowLogMax, kMaxWindowLog);
  }

  std::size_t read(std::span<std::byte> out) override {
    ZSTD_outBuffer output = {out.data(), out.size(), 0};
    while (output.pos < output.size) {
      if (input_.pos == input_.size) read_stored();
      const bool has_input = input_.size > 0;
      if (!has_input && wanted_ == 0) break;
      // Even without input, libzstd may still hold unpacked bytes.
      const std::size_t before = output.pos;
      wanted_ = ZSTD_decompressStream(stream_.get(), &output, &input_);
      if (ZSTD_isError(wanted_) != 0) damaged(ZSTD_getErrorName(wanted_));
      if (!has_input && output.pos == before) damaged("it ends too early");
    }
    return output.pos;
  }

 private:
  static constexpr std::size_t kStoredBytes = 1 << 20;

  void read_stored() {
    input_ = {stored_.data(), std::min<std::uint64_t>(kStoredBytes, file_.size() - at_), 0};
    file_.read_at(at_, std::span(stored_).first(input_.size));
    at_ += input_.size;
  }

  [[noreturn]] void damaged(const std::string& what) const {
    throw DataError(file_.path().string() + " is damaged or truncated (" + what + "): fetch it again");
  }

  File file_;
  std::unique_ptr<ZSTD_DCtx, std::size_t (*)(ZSTD_DCtx*)> stream_;
  std::vector<std::byte> stored_;
  ZSTD_inBuffer input_ = {};
  std::uint64_t at_ = 0;
  std::size_t wanted_ = 0;  // 0: a frame is complete
};

}  // namespace

std::unique_ptr<PackedFile> open_zstd(const std::filesystem::path& file) {
  return std::make_unique<PackedByZstd>(file);
}

}  // namespace mn::data

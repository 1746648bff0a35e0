#include "data/zstd_file.hpp"

#include <algorithm>
#include <string>
#include <vector>

#include <zstd.h>

#include <mn/core/error.hpp>
#include <mn/core/file.hpp>

namespace mn::data {
namespace {

constexpr int kMaxWindowLog = 31;  // the window of `zstd --ultra --long=31`; libzstd's default limit is 27

}  // namespace

struct ZstdFile::State {
  explicit State(const std::filesystem::path& path) : file(path, File::Mode::kRead), stored(ZSTD_DStreamInSize()) {
    if (!stream) throw DataError("cannot start libzstd");
    (void)ZSTD_DCtx_setParameter(stream.get(), ZSTD_d_windowLogMax, kMaxWindowLog);
  }

  /// Reads the next stored bytes of the file. False at the file's end.
  bool refill() {
    const std::uint64_t left = file.size() - at;
    input = {stored.data(), std::min<std::uint64_t>(stored.size(), left), 0};
    file.read_at(at, std::span(stored).first(input.size));
    at += input.size;
    return input.size > 0;
  }

  [[noreturn]] void damaged(const std::string& what) const {
    throw DataError(file.path().string() + " is damaged or truncated (" + what + "): fetch it again");
  }

  File file;
  std::uint64_t at = 0;  // offset of the next stored byte
  std::vector<std::byte> stored;
  ZSTD_inBuffer input = {};
  std::unique_ptr<ZSTD_DCtx, std::size_t (*)(ZSTD_DCtx*)> stream{ZSTD_createDCtx(), ZSTD_freeDCtx};
  std::size_t wanted = 0;  // 0: a frame is complete
};

ZstdFile::ZstdFile(const std::filesystem::path& path) : state_(std::make_unique<State>(path)) {}
ZstdFile::~ZstdFile() = default;
ZstdFile::ZstdFile(ZstdFile&&) noexcept = default;

std::size_t ZstdFile::read(std::span<std::byte> out) {
  ZSTD_outBuffer output = {out.data(), out.size(), 0};
  while (output.pos < output.size) {
    const bool has_input = state_->input.pos < state_->input.size || state_->refill();
    if (!has_input && state_->wanted == 0) break;
    // Even if no input is left, libzstd may hold unpacked bytes, so it is called once more.
    const std::size_t before = output.pos;
    state_->wanted = ZSTD_decompressStream(state_->stream.get(), &output, &state_->input);
    if (ZSTD_isError(state_->wanted) != 0) state_->damaged(ZSTD_getErrorName(state_->wanted));
    if (!has_input && output.pos == before) state_->damaged("it ends too early");
  }
  return output.pos;
}

}  // namespace mn::data

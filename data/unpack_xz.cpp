#include "data/unpack.hpp"

#include <string>

#include <lzma.h>

#include "data/stored_pieces.hpp"

namespace mn::data {
namespace {

constexpr std::uint64_t kMaxMemory = std::uint64_t{1} << 30;  // `xz -9` needs 65 MiB

class PackedByXz final : public PackedFile {
 public:
  explicit PackedByXz(const std::filesystem::path& path) : stored_(path) {
    if (lzma_stream_decoder(&stream_, kMaxMemory, LZMA_CONCATENATED) != LZMA_OK) {
      throw DataError("cannot start liblzma");
    }
  }
  ~PackedByXz() override { lzma_end(&stream_); }

  std::size_t read(std::span<std::byte> out) override {
    stream_.next_out = reinterpret_cast<std::uint8_t*>(out.data());
    stream_.avail_out = out.size();
    while (stream_.avail_out > 0 && !has_ended_) {
      if (stream_.avail_in == 0) take_piece();
      const lzma_ret result = lzma_code(&stream_, stream_.avail_in == 0 ? LZMA_FINISH : LZMA_RUN);
      has_ended_ = result == LZMA_STREAM_END;
      if (result != LZMA_OK && !has_ended_) throw_error(result);
    }
    return out.size() - stream_.avail_out;
  }

 private:
  void take_piece() {
    const auto piece = stored_.next();
    stream_.next_in = reinterpret_cast<const std::uint8_t*>(piece.data());
    stream_.avail_in = piece.size();
  }

  [[noreturn]] void throw_error(lzma_ret result) const {
    if (result == LZMA_MEM_ERROR || result == LZMA_MEMLIMIT_ERROR) {
      throw DataError(stored_.path() + " needs more than 1 GiB of memory to unpack: unpack it with `xz -d`");
    }
    stored_.throw_damaged(result == LZMA_BUF_ERROR ? "it ends too early" : "error " + std::to_string(result));
  }

  StoredPieces stored_;
  lzma_stream stream_ = LZMA_STREAM_INIT;
  bool has_ended_ = false;
};

}  // namespace

std::unique_ptr<PackedFile> open_xz(const std::filesystem::path& file) { return std::make_unique<PackedByXz>(file); }

}  // namespace mn::data

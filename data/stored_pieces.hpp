/// Reads a packed file from beginning to end, for the libraries that unpack pieces of memory.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <span>
#include <string>
#include <vector>

#include <mn/core/error.hpp>
#include <mn/core/file.hpp>

namespace mn::data {

class StoredPieces {
 public:
  explicit StoredPieces(const std::filesystem::path& path)
      : file_(path, File::Mode::kRead), piece_(std::min<std::uint64_t>(1 << 20, file_.size())) {}

  /// Returns the next bytes of the file, which stay valid until the next call; none at the end of the file.
  [[nodiscard]] std::span<const std::byte> next() {
    const std::span piece = std::span(piece_).first(std::min<std::uint64_t>(piece_.size(), file_.size() - at_));
    file_.read_at(at_, piece);
    at_ += piece.size();
    return piece;
  }
  [[nodiscard]] std::string path() const { return file_.path().string(); }
  [[noreturn]] void throw_damaged(const std::string& how) const {
    throw DataError(path() + " is damaged or truncated (" + how + "): fetch it again");
  }

 private:
  File file_;
  std::vector<std::byte> piece_;
  std::uint64_t at_ = 0;
};

}  // namespace mn::data

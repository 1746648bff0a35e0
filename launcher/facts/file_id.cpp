#include "facts/file_id.hpp"

#include <algorithm>
#include <cstdio>
#include <fstream>

#include <mn/core/checksum.hpp>
#include <mn/core/error.hpp>
#include <mn/core/text.hpp>

namespace mn::launcher {
namespace {

constexpr std::uintmax_t kEndBytes = 64 << 10;
constexpr std::size_t kPieces = 256;
constexpr std::size_t kPieceBytes = 64 << 10;

/// A hash of pieces spread over a large file: another build differs in most pieces. No value if the file cannot be
/// read.
std::optional<std::string> hash_of_pieces(const std::filesystem::path& path, std::uintmax_t size) {
  std::ifstream file(path, std::ios::binary);
  std::string bytes(kPieces * kPieceBytes, '\0');
  for (std::size_t i = 0; i < kPieces; ++i) {
    file.seekg(static_cast<std::streamoff>((size - kPieceBytes) * i / (kPieces - 1)));
    file.read(bytes.data() + i * kPieceBytes, static_cast<std::streamsize>(kPieceBytes));
  }
  return file ? std::optional(to_hex(hash64(bytes))) : std::nullopt;
}

}  // namespace

std::optional<std::string> file_id(const std::filesystem::path& file, const std::optional<ElfFile>& elf) {
  if (elf && !elf->build_id.empty()) return elf->build_id.substr(0, 16);
  std::error_code error;
  const std::uintmax_t size = std::filesystem::file_size(file, error);
  if (!error && size > 2 * kPieces * kPieceBytes) return hash_of_pieces(file, size);
  try {
    return to_hex(hash64_file(file));
  } catch (const DataError&) {
    return std::nullopt;
  }
}

std::optional<std::string> hash_of_ends(const std::filesystem::path& path, std::uintmax_t size) {
  std::ifstream file(path, std::ios::binary);
  std::string bytes(std::min(size, 2 * kEndBytes), '\0');
  const auto half = static_cast<std::streamsize>(std::min(size, kEndBytes));
  file.read(bytes.data(), half);
  file.seekg(static_cast<std::streamoff>(size - static_cast<std::uintmax_t>(half)));
  file.read(bytes.data() + (bytes.size() - static_cast<std::size_t>(half)), half);
  return file ? std::optional(to_hex(hash64(bytes))) : std::nullopt;
}

bool is_hashed_whole(std::uintmax_t size) { return size <= 2 * kEndBytes; }

}  // namespace mn::launcher

/// Reads tokens that other programs wrote.
///
/// nanoGPT: the tokens back to back, uint16, or uint32 for a vocabulary of more than 65,536 tokens. Megatron-LM
/// (megatron/core/datasets/indexed_dataset.py): the same in FILE.bin, of any integer type, and FILE.idx, little endian:
/// "MMIDIDX\0\0", uint64 version 1, uint8 code of the type, uint64 S sequences, uint64 D, int32 [S] lengths,
/// int64 [S] offsets in FILE.bin in bytes, int64 [D] the first sequence of each document, and then S.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <span>
#include <vector>

#include <mn/core/file.hpp>

#include "data/text_files.hpp"

namespace mn::data {

/// The name of the index beside FILE.bin: FILE.idx.
[[nodiscard]] inline std::filesystem::path index_of(std::filesystem::path file) {
  return file.replace_extension(".idx");
}

using UseTokens = std::function<void(std::span<const std::int32_t>)>;

/// A pair of files of Megatron-LM. The constructor and read() throw a DataError that names a damaged file.
class IndexedTokens {
 public:
  IndexedTokens(const std::filesystem::path& index, const std::filesystem::path& tokens);
  [[nodiscard]] std::int64_t documents() const noexcept { return documents_; }
  /// Calls use() for documents [first, last). Tokens are below `vocabulary`.
  void read(std::int64_t first, std::int64_t last, std::int32_t vocabulary, const UseTokens& use) const;

 private:
  /// Elements [first, first + count) of the index's array that begins at byte `begin`.
  template <class T>
  [[nodiscard]] std::vector<T> array(std::uint64_t begin, std::int64_t first, std::int64_t count) const;
  void append_sequence(std::int64_t sequence, std::int32_t vocabulary, std::vector<std::int32_t>& document) const;
  [[noreturn]] void damaged(const std::string& what) const;

  File index_, tokens_;
  int code_ = 0;            // of the type
  std::int64_t width_ = 0;  // bytes of a token
  std::int64_t sequences_ = 0;
  std::int64_t documents_ = 0;
  std::uint64_t lengths_at_ = 0, offsets_at_ = 0, documents_at_ = 0;  // in the index
};

/// Cuts file number `number`, of nanoGPT, into pieces of about `piece_bytes`, and adds them to `pieces`.
void cut_tokens(const std::filesystem::path& file, std::size_t number, std::int32_t vocabulary,
                std::int64_t piece_bytes, std::vector<TextPiece>& pieces);
/// Calls use() for the tokens of a piece, some at a time. Throws a DataError that names the file for a token that is
/// not below `vocabulary`.
void read_token_file(const std::filesystem::path& file, const TextPiece& piece, std::int32_t vocabulary,
                     const UseTokens& use);

/// Cuts a pair of files of Megatron-LM into pieces of documents.
void cut_indexed(const std::filesystem::path& file, std::size_t number, std::int64_t piece_bytes,
                 std::vector<TextPiece>& pieces);

}  // namespace mn::data

/// Finds the files that `mnshard tokens` reads, and cuts them into pieces that different threads can read.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include <mn/data/vocabulary.hpp>

#include "data/text_files.hpp"

namespace mn::data {

/// What a file holds.
enum class SourceKind : std::uint8_t {
  kText,           ///< one document
  kJsonLines,      ///< a document in each line
  kParquet,        ///< a document in each row
  kTokens,         ///< tokens back to back, as nanoGPT writes them: one document
  kIndexedTokens,  ///< documents of tokens, as Megatron-LM writes them
};

struct TokenSource {
  std::filesystem::path path;
  SourceKind kind = SourceKind::kText;

  [[nodiscard]] bool has_tokens() const { return kind == SourceKind::kTokens || kind == SourceKind::kIndexedTokens; }
  /// True if the file is one document, which may have several pieces.
  [[nodiscard]] bool is_document() const { return kind == SourceKind::kText || kind == SourceKind::kTokens; }
};

/// The files that `arguments` name: files, folders (and their subfolders) and patterns of file names as in a shell. The
/// files of a folder and of a pattern are sorted. A file's kind is in its name: .jsonl or .ndjson, .parquet, .bin
/// with or without an .idx beside it; other files are texts. In a folder, only .txt is a text, and other files are left
/// out. An ending .gz, .zst or .xz does not count. Throws DataError if a file is missing,
/// or if a folder or pattern has no file.
[[nodiscard]] std::vector<TokenSource> find_sources(const std::vector<std::string>& arguments);

struct CutOptions {
  const Vocabulary& vocabulary;
  std::int64_t piece_bytes;  ///< approximate size of a piece
  bool any_bytes;            ///< texts need not be UTF-8
  std::string field;         ///< column of Parquet files
};

/// Cuts all files into pieces, in order. Throws a DataError that names a file of a wrong format.
[[nodiscard]] std::vector<TextPiece> cut_sources(const std::vector<TokenSource>& sources, const CutOptions& options);

}  // namespace mn::data

/// Recognizes a wrong file by its first bytes, for errors that tell the user the file's kind.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include <mn/core/file.hpp>

namespace mn {

struct FileKind {
  std::string name;      ///< "a Git LFS pointer"
  std::string remedy;    ///< how to get the wanted file
  bool is_text = false;  ///< the file is text, such as HTML
};

/// Bytes at a file's beginning that kind_of_file() looks at: a tar file's header.
inline constexpr std::uint64_t kFileKindBytes = 512;

/// The kind of a file with this beginning; no value for an unknown kind.
[[nodiscard]] std::optional<FileKind> kind_of_file(std::string_view begin);

/// " but KIND: REMEDY" for the end of an error; empty for an unknown kind.
[[nodiscard]] std::string but_kind_of_file(std::string_view begin);

/// The likeliest encoding of a text with zero bytes and no byte order mark, found by the positions of the zeros.
/// Returns iconv's name for the encoding: UTF-16LE, UTF-16BE, UTF-32LE or UTF-32BE. Null without zero bytes.
[[nodiscard]] const char* wide_encoding(std::string_view begin);

/// The first kFileKindBytes of a file. Throws as File does.
[[nodiscard]] std::string begin_of_file(const File& file);

}  // namespace mn

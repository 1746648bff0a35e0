/// Recognizes the kind of a file by its first bytes, so that the error for a wrong file can tell its kind.
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

/// The number of bytes at a file's beginning that kind_of_file() looks at: the length of a tar file's header.
inline constexpr std::uint64_t kFileKindBytes = 512;

/// The kind of a file with this beginning; no value for an unknown kind.
[[nodiscard]] std::optional<FileKind> kind_of_file(std::string_view begin);

/// The end of an error text, " but KIND: REMEDY". Empty for an unknown kind.
[[nodiscard]] std::string but_kind_of_file(std::string_view begin);

/// The likeliest encoding of a text with zero bytes and no byte order mark, found by the positions of the zeros.
/// Returns iconv's name for the encoding: UTF-16LE, UTF-16BE, UTF-32LE or UTF-32BE. Null if the text has no zero bytes.
[[nodiscard]] const char* wide_encoding(std::string_view begin);

/// The first kFileKindBytes of a file. Throws as File does.
[[nodiscard]] std::string begin_of_file(const File& file);

}  // namespace mn

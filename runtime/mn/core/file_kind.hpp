/// Recognizes the kind of a file by the first bytes, for errors about a wrong file.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include <mn/core/file.hpp>

namespace mn {

struct FileKind {
  std::string name;      ///< for example "a Git LFS pointer"
  std::string remedy;    ///< how to get the wanted file
  bool is_text = false;  ///< true if the file is text, for example HTML
};

/// Number of bytes at a file's beginning that kind_of_file() looks at: the length of a tar file's header.
inline constexpr std::uint64_t kFileKindBytes = 512;

/// The kind of a file that begins with `begin`. No value if the kind is unknown.
[[nodiscard]] std::optional<FileKind> kind_of_file(std::string_view begin);

/// The end of an error text about a file that begins with `begin`: " but KIND: REMEDY". Empty if the kind is unknown.
[[nodiscard]] std::string but_kind_of_file(std::string_view begin);

/// The likeliest encoding of a text with zero bytes and no byte order mark, found by the positions of the zeros. The
/// result is iconv's name: UTF-16LE, UTF-16BE, UTF-32LE or UTF-32BE. Null if the text has no zero bytes.
[[nodiscard]] const char* wide_encoding(std::string_view begin);

/// Reads the first kFileKindBytes of a file, or all of a shorter file. Throws the errors of File.
[[nodiscard]] std::string begin_of_file(const File& file);

}  // namespace mn

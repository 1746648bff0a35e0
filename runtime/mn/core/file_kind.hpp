/// What a file is that is not what it should be, told by its first bytes, for errors.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include <mn/core/file.hpp>

namespace mn {

/// A kind of file that is given by mistake.
struct FileKind {
  std::string name;      ///< "a Git LFS pointer"
  std::string remedy;    ///< what gives the file that is wanted
  bool is_text = false;  ///< of letters, such as HTML
};

/// As many bytes of a file as kind_of_file() looks at: a tar file's header.
inline constexpr std::uint64_t kFileKindBytes = 512;

/// The kind of the file that begins so; no value for one that is not known.
[[nodiscard]] std::optional<FileKind> kind_of_file(std::string_view begin);

/// " but KIND: REMEDY" for the end of an error, or an empty text if the kind is not known.
[[nodiscard]] std::string but_kind_of_file(std::string_view begin);

/// The first kFileKindBytes of a file. Throws as File does.
[[nodiscard]] std::string begin_of_file(const File& file);

}  // namespace mn

#include <mn/core/file_kind.hpp>

#include <algorithm>

#include <mn/core/text.hpp>

namespace mn {
namespace {

using namespace std::string_view_literals;

struct Row {
  std::string_view magic;
  const char* name;
  const char* remedy;
};

constexpr const char* kUnpack = "unpack it first";
constexpr const char* kRead = "read it in Python and convert it";

constexpr Row kRows[] = {
    {"version https://git-lfs"sv, "a Git LFS pointer", "fetch the file itself with `git lfs pull`"},
    {"\x1F\x8B"sv, "packed by gzip", kUnpack},
    {"\x1F\x9D"sv, "packed by compress", kUnpack},
    {"BZh91AY&SY"sv, "packed by bzip2", kUnpack},
    {"\xFD\x37zXZ\0"sv, "packed by xz", kUnpack},
    {"\x28\xB5\x2F\xFD"sv, "packed by zstd", kUnpack},
    {"\x04\x22\x4D\x18"sv, "packed by lz4", kUnpack},
    {"7z\xBC\xAF\x27\x1C"sv, "a 7z archive", kUnpack},
    {"Rar!\x1A\x07"sv, "a RAR archive", kUnpack},
    {"PK\x03\x04"sv, "a ZIP archive", kUnpack},
    {"\x93NUMPY"sv, "an array of numpy's (.npy)", kRead},
    {"\x89HDF\r\n\x1A\n"sv, "an HDF5 file", kRead},
    {"GGUF"sv, "weights of llama.cpp (.gguf)", "save the model in Python with safetensors.torch.save_file"},
    {"PAR1"sv, "a Parquet file", kRead},
    {"ARROW1\0\0"sv, "an Arrow file", kRead},
    {"\xFF\xFF\xFF\xFF"sv, "an Arrow stream or binary numbers", kRead},
    {"SQLite format 3\0"sv, "an SQLite database", kRead},
    {"\x80\x02"sv, "a Python pickle", kRead},
    {"\x80\x03"sv, "a Python pickle", kRead},
    {"\x80\x04\x95"sv, "a Python pickle", kRead},
    {"\x80\x05\x95"sv, "a Python pickle", kRead},
    {"%PDF-"sv, "a PDF", "write its text to a file, e.g. with pdftotext"},
    {"\x7F\x45LF"sv, "a program", "give the data"},
    {"\xFF\xFE\0\0"sv, "text in UTF-32", "convert it with `iconv -f UTF-32 -t UTF-8`"},
    {"\0\0\xFE\xFF"sv, "text in UTF-32", "convert it with `iconv -f UTF-32 -t UTF-8`"},
    {"\xFF\xFE"sv, "text in UTF-16", "convert it with `iconv -f UTF-16 -t UTF-8`"},
    {"\xFE\xFF"sv, "text in UTF-16", "convert it with `iconv -f UTF-16 -t UTF-8`"},
};

/// Beginnings of text formats, in lower case.
constexpr Row kTexts[] = {
    {"<!doctype html"sv, "HTML", "a download gave a web page in place of the file: fetch it again"},
    {"<html"sv, "HTML", "a download gave a web page in place of the file: fetch it again"},
    {"<?xml"sv, "XML", "a download may have given an error in place of the file: look at it"},
    {"<svg"sv, "SVG", "draw it as a PNG"},
    {"{\""sv, "JSON", "look at it: it may be an index, or the error of a download"},
};

constexpr std::size_t kTarMagicAt = 257;

}  // namespace

std::optional<FileKind> kind_of_file(std::string_view begin) {
  for (const Row& row : kRows) {
    if (begin.starts_with(row.magic)) return FileKind{row.name, row.remedy, false};
  }
  if (begin.size() > kTarMagicAt && begin.substr(kTarMagicAt).starts_with("ustar")) {
    return FileKind{"a tar file", kUnpack, false};
  }
  if (begin.starts_with("\xEF\xBB\xBF")) begin.remove_prefix(3);  // the byte order mark of some editors
  begin.remove_prefix(std::min(begin.find_first_not_of(" \t\r\n"), begin.size()));
  const std::string letters = to_lower(std::string(begin.substr(0, 16)));
  for (const Row& row : kTexts) {
    if (letters.starts_with(row.magic)) return FileKind{row.name, row.remedy, true};
  }
  return std::nullopt;
}

const char* wide_encoding(std::string_view begin) {
  std::size_t zeros[4] = {};  // zeros[i] counts the zeros among bytes i, i + 4, i + 8, …
  for (std::size_t i = 0; i < begin.size(); ++i) zeros[i % 4] += begin[i] == '\0' ? 1 : 0;
  const std::size_t characters = begin.size() / 4;
  // A character of UTF-32 is at most U+10FFFF, so its highest byte is always 0, and the next byte is nearly always 0.
  if (characters > 0 && zeros[3] >= characters && 2 * zeros[2] > characters) return "UTF-32LE";
  if (characters > 0 && zeros[0] >= characters && 2 * zeros[1] > characters) return "UTF-32BE";
  if (zeros[0] + zeros[1] + zeros[2] + zeros[3] == 0) return nullptr;
  return zeros[1] + zeros[3] >= zeros[0] + zeros[2] ? "UTF-16LE" : "UTF-16BE";
}

std::string begin_of_file(const File& file) {
  std::string begin(std::min<std::uint64_t>(file.size(), kFileKindBytes), '\0');
  file.read_at(0, std::as_writable_bytes(std::span(begin)));
  return begin;
}

std::string but_kind_of_file(std::string_view begin) {
  const auto kind = kind_of_file(begin);
  return kind ? " but " + kind->name + ": " + kind->remedy : "";
}

}  // namespace mn

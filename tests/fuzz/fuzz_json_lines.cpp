// JSON lines of any bytes, packed or not: documents, the same whether the file is cut into pieces or not, or a
// DataError of one line that names the file.
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include <mn/core/error.hpp>

#include "data/documents.hpp"
#include "tests/fuzz/input_file.hpp"

// A zstd file of a few bytes may demand a window of 2 GiB. Untouched memory is cheap but under ASan, where such an
// allocation takes a second.
extern "C" const char* __asan_default_options() {  // NOLINT
  return "max_allocation_size_mb=256:allocator_may_return_null=1";
}

namespace {

using mn::data::Document;

/// The texts of all documents, or the error.
std::string texts_of(const std::string& path, std::int64_t piece_bytes, const mn::data::ChatTemplate* chat) {
  std::string texts;
  try {
    std::vector<mn::data::TextPiece> pieces;
    mn::data::cut_lines(path, 0, piece_bytes, pieces);
    const auto add = [&](const Document& document) {
      for (const auto& part : document) texts += part.text + (part.is_answer ? "|" : "/");
    };
    for (const auto& piece : pieces) mn::data::read_json_lines(path, piece, chat == nullptr ? "text" : "m", chat, add);
    return texts;
  } catch (const mn::DataError& error) {
    const std::string_view what = error.what();
    if (!what.starts_with(path) || what.find('\n') != std::string_view::npos) __builtin_trap();
    return error.what();
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  static mn::fuzz::InputFile file("lines");
  constexpr std::size_t kMaxSize = 2048;  // zstd unpacks it to 64 MiB at most
  if (size > kMaxSize || !file.replace(std::as_bytes(std::span(data, size)))) return 0;
  const std::string whole = texts_of(file.path(), 1 << 20, nullptr);
  if (texts_of(file.path(), 7, nullptr) != whole) __builtin_trap();
  (void)texts_of(file.path(), 1 << 20, mn::data::find_chat_template("llama3"));
  return 0;
}

// Any index and tokens of Megatron-LM, in one input: documents with tokens of the vocabulary, no more than there are
// bytes, or a DataError of one line.
#include <cstdint>
#include <span>
#include <string_view>

#include <mn/core/error.hpp>

#include "data/token_files.hpp"
#include "tests/fuzz/input_file.hpp"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  constexpr std::int32_t kVocabulary = 300;
  static mn::fuzz::InputFile index("index"), tokens("tokens");
  if (size < 1) return 0;
  // The first byte is the number of bytes of tokens at the end.
  const auto bytes = std::as_bytes(std::span(data, size)).subspan(1);
  const std::size_t own = std::min<std::size_t>(data[0], bytes.size());
  if (!index.replace(bytes.first(bytes.size() - own)) || !tokens.replace(bytes.last(own))) return 0;
  try {
    const mn::data::IndexedTokens opened(index.path(), tokens.path());
    opened.read(0, opened.documents(), kVocabulary, [&](std::span<const std::int32_t> document) {
      if (document.size() > own) __builtin_trap();
      for (const std::int32_t token : document) {
        if (token < 0 || token >= kVocabulary) __builtin_trap();
      }
    });
  } catch (const mn::DataError& error) {
    if (std::string_view(error.what()).find('\n') != std::string_view::npos) __builtin_trap();
  }
  return 0;
}

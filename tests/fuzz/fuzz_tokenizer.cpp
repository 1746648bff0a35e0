// Any tokenizer.json or .tiktoken file: DataError, or a vocabulary that survives its own JSON, has all tokens of texts,
// and gives a text cut where can_cut() allows the tokens of the whole.
#include <cstdint>
#include <string>

#include <mn/core/error.hpp>
#include <mn/core/json.hpp>
#include <mn/data/vocabulary.hpp>

namespace {

mn::Vocabulary vocabulary_of(const std::string& bytes) {
  if (bytes.starts_with('{')) return mn::Vocabulary::from_json(mn::parse_json(bytes, "input"), "input");
  // JSON has no bytes that are not UTF-8, and from_json() takes none.
  const std::string text = mn::utf8_text(bytes);
  return mn::Vocabulary::from_json({{"vocabulary", "tiktoken"}, {"encoding", "cl100k_base"}, {"tokens", text}},
                                   "input");
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string bytes(reinterpret_cast<const char*>(data), size);
  try {
    const mn::Vocabulary vocabulary = vocabulary_of(bytes);
    if (!(mn::Vocabulary::from_json(vocabulary.to_json(), "its copy") == vocabulary)) __builtin_trap();
    const std::string text =
        bytes.substr(0, 2000) + " the\xC3\xA9 cat's\n\n  12345 <s>\xE4\xB8\x96\xF0\x9F\x99\x82 a\xCC\x81";
    const auto tokens = vocabulary.encode(text);
    (void)vocabulary.decode(tokens);
    const std::size_t cut = vocabulary.complete(text);
    auto parts = vocabulary.encode(std::string_view(text).substr(0, cut));
    const auto rest = vocabulary.encode(std::string_view(text).substr(cut), cut > 0);
    parts.insert(parts.end(), rest.begin(), rest.end());
    if (parts != tokens) __builtin_trap();
  } catch (const mn::DataError& error) {
    if (!std::string_view(error.what()).starts_with("input")) __builtin_trap();
  }
  return 0;
}

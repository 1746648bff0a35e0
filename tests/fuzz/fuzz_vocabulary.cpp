// Vocabularies of any JSON: DataError, or one that survives its own JSON and decodes what it encodes.
#include <cstdint>
#include <string>

#include <mn/core/error.hpp>
#include <mn/core/json.hpp>
#include <mn/data/vocabulary.hpp>

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view bytes(reinterpret_cast<const char*>(data), size);
  try {
    const auto vocabulary = mn::Vocabulary::from_json(mn::parse_json(bytes, "input"), "input");
    if (!(mn::Vocabulary::from_json(vocabulary.to_json(), "its copy") == vocabulary)) __builtin_trap();
    std::string all;
    for (std::int32_t token = 0; token < vocabulary.size(); ++token) all += vocabulary.text(token);
    for (const std::string& text : {all, std::string(bytes)}) {
      try {
        if (vocabulary.decode(vocabulary.encode(text)) != text) __builtin_trap();
      } catch (const mn::ArgumentError&) {  // a character that it lacks
        if (text == all) __builtin_trap();
      }
    }
  } catch (const mn::DataError& error) {
    if (!std::string_view(error.what()).starts_with("input")) __builtin_trap();
  }
  return 0;
}

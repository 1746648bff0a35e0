#include <mn/data/tokenizer/token_names.hpp>

#include <unordered_map>

#include <mn/core/error.hpp>
#include <mn/data/tokenizer/tokenizer.hpp>
#include <mn/data/tokenizer/unicode.hpp>

namespace mn::data {
namespace {

std::unordered_map<std::string, char> bytes_of_names() {
  std::unordered_map<std::string, char> bytes;
  for (int byte = 0; byte < 256; ++byte) bytes[byte_level_name(byte)] = static_cast<char>(byte);
  return bytes;
}

}  // namespace

std::string byte_level_name(int byte) {
  const auto is_itself = [](int b) { return (b >= '!' && b <= '~') || (b >= 0xA1 && b != 0xAD); };
  int character = is_itself(byte) ? byte : 256;
  for (int before = 0; !is_itself(byte) && before < byte; ++before) character += is_itself(before) ? 0 : 1;
  if (character < 0x80) return std::string(1, static_cast<char>(character));
  return {static_cast<char>(0xC0 | character >> 6), static_cast<char>(0x80 | (character & 0x3F))};
}

std::string byte_level_text(const std::string& name) {
  static const std::unordered_map<std::string, char> kBytes = bytes_of_names();
  std::string bytes;
  for (std::size_t at = 0; at < name.size();) {
    const std::string character = name.substr(at, character_at(name, at).bytes);
    const auto found = kBytes.find(character);
    if (found == kBytes.end()) return name;
    bytes += found->second;
    at += character.size();
  }
  return bytes;
}

std::string byte_fallback_name(int byte) {
  constexpr std::string_view kDigits = "0123456789ABCDEF";
  return {'<', '0', 'x', kDigits[static_cast<std::size_t>(byte >> 4)], kDigits[static_cast<std::size_t>(byte & 15)],
          '>'};
}

std::string metaspace_text(std::string name) {
  for (std::size_t at = 0; (at = name.find(kMetaspace, at)) != std::string::npos; ++at) {
    name.replace(at, kMetaspace.size(), " ");
  }
  return name;
}

void check_number(std::int64_t number, std::size_t tokens) {
  constexpr std::size_t kMaxMissing = 4096;
  if (number >= 0 && static_cast<std::size_t>(number) < tokens + kMaxMissing) return;
  throw ArgumentError("a token has the number " + std::to_string(number) + ", but there are " + std::to_string(tokens) +
                      " tokens");
}

}  // namespace mn::data

// tiktoken merges the pair whose joined text is the token with the lowest number, and takes a whole word that is a
// token as it is.
#include <mn/data/tokenizer/tiktoken.hpp>

#include <algorithm>
#include <array>

#include <mn/core/error.hpp>
#include <mn/core/json.hpp>
#include <mn/core/text.hpp>
#include <mn/data/tokenizer/token_names.hpp>

namespace mn::data {
namespace {

struct TiktokenEncoding {
  std::string_view name;
  std::string_view pattern;
  std::int32_t tokens;       // in the published file
  std::int32_t end_of_text;  // the special token's number with this file
  std::int32_t size;         // number of tokens with all special tokens
  bool begins = false;       // whether the token before end_of_text begins texts
  bool is_nfc = false;
};

constexpr std::array<TiktokenEncoding, 7> kEncodings = {{
    {"gpt2", "gpt2", 50256, 50256, 50257},
    {"r50k_base", "gpt2", 50256, 50256, 50257},
    {"p50k_base", "gpt2", 50280, 50256, 50281},
    {"cl100k_base", "llama3", 100256, 100257, 100277},
    {"o200k_base", "o200k", 199998, 199999, 200019},
    {"llama3", "llama3", 128000, 128001, 128256, true},
    {"qwen", "qwen2", 151643, 151643, 151851, false, true},
}};

constexpr std::size_t kMaxTiktokenBytes = 1024;  // longest token; bounds the number of its halves

std::string from_base64(std::string_view text) {
  constexpr std::string_view kDigits = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  std::string bytes;
  std::uint32_t bits = 0;
  int count = 0;
  while (text.ends_with('=')) text.remove_suffix(1);
  for (const char digit : text) {
    const std::size_t value = kDigits.find(digit);
    if (value == std::string_view::npos) return {};
    bits = bits << 6 | static_cast<std::uint32_t>(value);
    count += 6;
    if (count < 8) continue;
    count -= 8;
    bytes += static_cast<char>(bits >> count & 0xFF);
  }
  return bytes;
}

/// Calls use(bytes, number) for each line.
template <class Use>
void for_each_line(std::string_view content, Use use) {
  std::int64_t line = 0;
  while (!content.empty()) {
    std::string_view text = content.substr(0, content.find('\n'));
    content.remove_prefix(std::min(content.size(), text.size() + 1));
    ++line;
    if (text.ends_with('\r')) text.remove_suffix(1);
    if (text.empty()) continue;
    const std::size_t blank = text.find(' ');
    const std::string bytes = from_base64(text.substr(0, blank));
    const auto number = parse_number<std::int32_t>(blank == std::string_view::npos ? "" : text.substr(blank + 1));
    if (bytes.empty() || bytes.size() > kMaxTiktokenBytes || !number || *number < 0) {
      throw ArgumentError("line " + std::to_string(line) +
                          " is not a token in base64 and its number: " + json_quoted(text));
    }
    use(bytes, *number);
  }
}

/// Every pair of tokens whose joined text is a token.
void add_pairs(const std::unordered_map<std::string, std::int32_t>& numbers, BytePairs& merges) {
  for (const auto& [text, number] : numbers) {
    for (std::size_t half = 1; half < text.size(); ++half) {
      const auto first = numbers.find(text.substr(0, half));
      const auto second = first == numbers.end() ? first : numbers.find(text.substr(half));
      if (second != numbers.end()) merges.add(first->second, second->second, number, number);
    }
  }
}

/// Numbers the special tokens as the published vocabulary does. If the file has other tokens than that vocabulary, the
/// special tokens follow the file's last token.
void add_special_tokens(const TiktokenEncoding& encoding, TokenizerParts& parts) {
  const auto last = static_cast<std::int32_t>(parts.texts.size());
  const bool is_published = std::ssize(parts.words) == encoding.tokens && last <= encoding.size;
  parts.end_of_text = is_published ? encoding.end_of_text : last + (encoding.begins ? 1 : 0);
  if (encoding.begins) parts.begin_of_text = *parts.end_of_text - 1;
  if (is_published) parts.texts.resize(static_cast<std::size_t>(encoding.size));
  if (!is_published) parts.texts.resize(static_cast<std::size_t>(*parts.end_of_text) + 1);
  if (!parts.texts[static_cast<std::size_t>(*parts.end_of_text)].empty()) {
    throw ArgumentError("token " + std::to_string(*parts.end_of_text) + " is a text, and the end-of-text token");
  }
}

}  // namespace

bool is_tiktoken(std::string_view content) {
  const std::string_view line = content.substr(0, content.find('\n'));
  const std::size_t blank = line.find(' ');
  if (blank == std::string_view::npos || from_base64(line.substr(0, blank)).empty()) return false;
  return line.substr(blank + 1).find_first_not_of("0123456789\r") == std::string_view::npos;
}

std::string tiktoken_encoding(std::string_view content, std::string_view file_name) {
  for (const TiktokenEncoding& encoding : kEncodings) {
    if (file_name.starts_with(encoding.name)) return std::string(encoding.name);
  }
  std::int64_t count = 0;
  for_each_line(content, [&](const std::string&, std::int32_t) { ++count; });
  const auto* const found = std::ranges::find(kEncodings, count, &TiktokenEncoding::tokens);
  if (found != kEncodings.end()) return std::string(found->name);
  std::string names;
  for (const TiktokenEncoding& encoding : kEncodings) names += (names.empty() ? "" : ", ") + std::string(encoding.name);
  throw ArgumentError("no known encoding has " + std::to_string(count) + " tokens: begin the file's name with one of " +
                      names);
}

std::shared_ptr<const Tokenizer> read_tiktoken(std::string_view content, std::string_view encoding) {
  const auto* const known = std::ranges::find(kEncodings, encoding, &TiktokenEncoding::name);
  if (known == kEncodings.end()) throw ArgumentError("there is no encoding " + json_quoted(encoding));
  TokenizerParts parts;
  parts.pattern = named_pattern(known->pattern);
  parts.is_nfc = known->is_nfc;
  const auto lines = static_cast<std::size_t>(std::ranges::count(content, '\n')) + 1;
  for_each_line(content, [&](const std::string& bytes, std::int32_t number) {
    check_number(number, lines);
    if (number >= std::ssize(parts.texts)) parts.texts.resize(static_cast<std::size_t>(number) + 1);
    std::string& text = parts.texts[static_cast<std::size_t>(number)];
    if (!text.empty() || !parts.words.emplace(bytes, number).second) {
      throw ArgumentError("token " + std::to_string(number) + " or its text occurs twice");
    }
    text = bytes;
  });
  for (int byte = 0; byte < 256; ++byte) {
    const auto found = parts.words.find(std::string(1, static_cast<char>(byte)));
    if (found == parts.words.end()) throw ArgumentError("byte " + std::to_string(byte) + " has no token");
    parts.byte_tokens[static_cast<std::size_t>(byte)] = found->second;
  }
  add_pairs(parts.words, parts.merges);
  add_special_tokens(*known, parts);
  return std::make_shared<const Tokenizer>(std::move(parts));
}

}  // namespace mn::data

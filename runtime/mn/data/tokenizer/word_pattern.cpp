// The alternatives of a pattern are tried in order, as a backtracking matcher tries them:
// contraction | letters | digits | signs | blanks that end in a line break | blanks | last blank.
#include <mn/data/tokenizer/word_pattern.hpp>

#include <algorithm>
#include <array>
#include <optional>

#include <mn/data/tokenizer/unicode.hpp>

namespace mn::data {
namespace {

using Contractions = WordPattern::Contractions;

constexpr std::array<WordPattern, 9> kPatterns = {{
    {.name = "gpt2",
     .regex = R"('s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+)",
     .contractions = Contractions::kLower,
     .has_only_blanks = true,
     .tail = ""},
    {.name = "gpt2",
     .regex = R"('(?:[sdmt]|ll|ve|re)| ?\p{L}++| ?\p{N}++| ?[^\s\p{L}\p{N}]++|\s++$|\s+(?!\S)|\s)",
     .contractions = Contractions::kLower,
     .has_only_blanks = true,
     .tail = ""},
    {.name = "llama3",
     .regex = R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*)"
              R"(|\s*[\r\n]+|\s+(?!\S)|\s+)"},
    {.name = "llama3",
     .regex = R"('(?i:[sdmt]|ll|ve|re)|[^\r\n\p{L}\p{N}]?+\p{L}++|\p{N}{1,3}+| ?[^\s\p{L}\p{N}]++[\r\n]*+)"
              R"(|\s++$|\s*[\r\n]|\s+(?!\S)|\s)"},
    {.name = "llama3",
     .regex = R"('(?i:[sdmt]|ll|ve|re)|[^\r\n\p{L}\p{N}]?+\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]++[\r\n]*)"
              R"(|\s*[\r\n]|\s+(?!\S)|\s+)"},
    {.name = "qwen2",
     .regex = R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*)"
              R"(|\s*[\r\n]+|\s+(?!\S)|\s+)",
     .digits = 1},
    {.name = "qwen3.5",
     .regex = R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?[\p{L}\p{M}]+|\p{N}| ?[^\s\p{L}\p{M}\p{N}]+[\r\n]*)"
              R"(|\s*[\r\n]+|\s+(?!\S)|\s+)",
     .has_marks = true,
     .digits = 1},
    {.name = "o200k",
     .regex = R"([^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+)"
              R"((?i:'s|'t|'re|'ve|'m|'ll|'d)?|)"
              R"([^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*)"
              R"((?i:'s|'t|'re|'ve|'m|'ll|'d)?|)"
              R"(\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+)",
     .contractions = Contractions::kSuffix,
     .splits_cases = true,
     .tail = "\r\n/"},
    {.name = "tekken",
     .regex = R"([^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+|)"
              R"([^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*|)"
              R"(\p{N}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+)",
     .contractions = Contractions::kNone,
     .splits_cases = true,
     .digits = 1,
     .tail = "\r\n/"},
}};

class WordMatch {
 public:
  WordMatch(const WordPattern& pattern, std::string_view text)
      : pattern_(pattern),
        text_(text),
        letters_(pattern.has_marks ? kLetter | kMark : kLetter),
        not_signs_(letters_ | kNumber | kSpace | kTextEnd) {}

  [[nodiscard]] std::size_t length() const {
    const Character first = character_at(text_, 0);
    const bool is_word =
        pattern_.contractions == Contractions::kLower || pattern_.contractions == Contractions::kAnyCase;
    if (is_word) {
      if (const std::size_t end = contraction(0); end > 0) return end;
    }
    if (const std::size_t end = pattern_.splits_cases ? cased_letters(first) : letters(first); end > 0) return end;
    const std::size_t after_blank = text_[0] == ' ' ? 1 : 0;
    if (const std::size_t end = digits(pattern_.has_only_blanks ? after_blank : 0); end > 0) return end;
    if ((category(after_blank) & not_signs_) == 0) {
      std::size_t end = after_blank;
      while ((category(end) & not_signs_) == 0) end += character_at(text_, end).bytes;
      while (end < text_.size() && pattern_.tail.find(text_[end]) != std::string_view::npos) ++end;
      return end;
    }
    return blanks();
  }

 private:
  [[nodiscard]] std::uint8_t category(std::size_t at) const { return character_at(text_, at).category; }
  [[nodiscard]] bool is_line_break(std::size_t at) const { return text_[at] == '\r' || text_[at] == '\n'; }

  /// Returns the end of the characters from `at` on that have a category of `mask`.
  [[nodiscard]] std::size_t run(std::size_t at, std::uint8_t mask) const {
    for (Character next = character_at(text_, at); (next.category & mask) != 0; next = character_at(text_, at)) {
      at += next.bytes;
    }
    return at;
  }

  /// Returns the end of a contraction at `at`, or 0. In any case, ſ (U+017F) equals s.
  [[nodiscard]] std::size_t contraction(std::size_t at) const {
    if (at + 1 >= text_.size() || text_[at] != '\'') return 0;
    const bool any_case = pattern_.contractions != Contractions::kLower;
    const auto lower = [&](std::size_t i) {
      const char c = i < text_.size() ? text_[i] : '\0';
      return any_case && c >= 'A' && c <= 'Z' ? static_cast<char>(c + ('a' - 'A')) : c;
    };
    const char first = lower(at + 1), second = lower(at + 2);
    if (first == 's' || first == 't' || first == 'm' || first == 'd') return at + 2;
    const bool is_pair = (second == 'e' && (first == 'r' || first == 'v')) || (first == 'l' && second == 'l');
    if (is_pair) return at + 3;
    return any_case && text_.substr(at + 1).starts_with("\u017F") ? at + 3 : 0;
  }

  /// Whether the first character may stand before the letters of a word.
  [[nodiscard]] bool is_prefix(const Character& first) const {
    if (pattern_.has_only_blanks) return text_[0] == ' ';
    return (first.category & (kLetter | kNumber)) == 0 && !is_line_break(0);
  }

  [[nodiscard]] std::size_t letters(const Character& first) const {
    if ((first.category & letters_) != 0) return run(0, letters_);
    return is_prefix(first) ? end_after(first.bytes, run(first.bytes, letters_)) : 0;
  }
  static std::size_t end_after(std::size_t begin, std::size_t end) { return end > begin ? end : 0; }

  [[nodiscard]] std::size_t digits(std::size_t begin) const {
    if (pattern_.has_only_blanks) return end_after(begin, run(begin, kNumber));
    std::size_t end = begin;
    for (int i = 0; i < pattern_.digits && (category(end) & kNumber) != 0; ++i) end += character_at(text_, end).bytes;
    return end;
  }

  /// Letters of upper case, then letters of lower case; letters without a case, and marks, count as both.
  [[nodiscard]] std::size_t cased_letters(const Character& first) const {
    const std::array<std::size_t, 2> begins = {is_prefix(first) ? first.bytes : std::size_t{0}, 0};
    std::size_t end = 0;
    for (std::size_t i = 0; end == 0 && i < begins.size(); ++i) end = with_lower(begins[i]);
    for (std::size_t i = 0; end == 0 && i < begins.size(); ++i)
      end = end_after(begins[i], run(begins[i], kUpperOrNone));
    if (end == 0 || pattern_.contractions != Contractions::kSuffix) return end;
    return std::max(end, contraction(end));
  }
  /// Returns the end of the word from `begin` that ends in a letter of lower case or without a case; 0: none.
  [[nodiscard]] std::size_t with_lower(std::size_t begin) const {
    std::size_t at = begin, last = 0;
    for (Character next = character_at(text_, at); (next.category & kUpperOrNone) != 0;
         next = character_at(text_, at)) {
      at += next.bytes;
      if ((next.category & kLowerOrNone) != 0) last = at;
    }
    const std::size_t end = run(at, kLowerOrNone);
    return end > at ? end : last;
  }

  [[nodiscard]] std::size_t blanks() const {
    std::size_t end = 0, last = 0, after_break = 0;
    for (Character next = character_at(text_, 0); next.category == kSpace; next = character_at(text_, end)) {
      last = end;
      end += next.bytes;
      if (is_line_break(last)) after_break = end;
    }
    if (after_break > 0 && !pattern_.has_only_blanks) return after_break;
    return last > 0 && end < text_.size() ? last : end;
  }

  static constexpr std::uint8_t kUpperOrNone = kUpper | kOtherLetter | kMark;
  static constexpr std::uint8_t kLowerOrNone = kLower | kOtherLetter | kMark;

  const WordPattern& pattern_;
  std::string_view text_;
  std::uint8_t letters_;
  std::uint8_t not_signs_;
};

}  // namespace

const WordPattern* named_pattern(std::string_view name) noexcept {
  const auto* const found = std::ranges::find(kPatterns, name, &WordPattern::name);
  return found == kPatterns.end() ? nullptr : found;
}

const WordPattern* find_pattern(std::string_view regex) noexcept {
  const auto* const found = std::ranges::find(kPatterns, regex, &WordPattern::regex);
  return found == kPatterns.end() ? nullptr : found;
}

std::size_t first_word(const WordPattern& pattern, std::string_view text) noexcept {
  return text.empty() ? 0 : WordMatch(pattern, text).length();
}

}  // namespace mn::data

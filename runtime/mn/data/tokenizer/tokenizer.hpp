/// Encodes text as the `tokenizers` library does for byte pair encodings: of bytes (GPT-2, Llama 3, Qwen), or of
/// characters with bytes for the characters that the vocabulary lacks (Llama 2, Mistral).
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include <mn/data/tokenizer/added_tokens.hpp>
#include <mn/data/tokenizer/byte_pairs.hpp>
#include <mn/data/tokenizer/word_pattern.hpp>

namespace mn::data {

/// The character that stands for a blank in vocabularies of characters.
inline constexpr std::string_view kMetaspace = "\u2581";

/// What happens to a text's blanks before it is cut into words.
struct Blanks {
  enum class Prefix : std::uint8_t {
    kNone,
    kFirst,   ///< the text begins with a blank; so does …
    kEach,    ///< … the text after each added token
    kDouble,  ///< like kEach, even if there is a blank already
  };
  Prefix prefix = Prefix::kNone;
  bool as_metaspace = false;  ///< kMetaspace replaces each blank
};

/// What a tokenizer's file says.
struct TokenizerParts {
  std::vector<std::string> texts;  ///< [tokens] decoded; empty for special tokens and numbers that are not tokens
  BytePairs merges;
  std::array<std::int32_t, 256> byte_tokens{};
  std::unordered_map<std::string, std::int32_t> characters;  ///< tokens of one character; empty: of bytes
  std::unordered_map<std::string, std::int32_t> words;       ///< tokens that need no merges
  std::vector<std::string> merged;                           ///< texts that merges of characters make
  const WordPattern* pattern = nullptr;                      ///< null: words are what merges can join
  bool is_nfc = false;
  Blanks blanks;       ///< before added_late is looked for
  Blanks late_blanks;  ///< after that
  bool splits_at_blanks = false;
  AddedTokens added;       ///< found in the text as it is
  AddedTokens added_late;  ///< found in the normalized text
  std::optional<std::int32_t> begin_of_text, end_of_text;
  bool drops_first_blank = false;  ///< decoding drops the blank with which a text begins
};

/// A Tokenizer never changes, so any number of threads may use it. Each thread has a cache of words.
class Tokenizer {
 public:
  /// The parts must have a token for each byte.
  explicit Tokenizer(TokenizerParts parts);
  [[nodiscard]] const TokenizerParts& parts() const noexcept { return parts_; }

  /// Appends the tokens of a text. If `continues` is true, the text follows a text that ended where can_cut() is true.
  void encode(std::string_view text, bool continues, std::vector<std::int32_t>& tokens) const;
  /// True if the tokens of text[0, at) and of text[at, …) are those of the whole, whatever stands around `text`.
  /// 0 < at < text.size().
  [[nodiscard]] bool can_cut(std::string_view text, std::size_t at) const;

 private:
  /// What stands before a part of a text.
  enum class Before : std::uint8_t { kNothing, kToken, kText };
  static std::string with_blanks(std::string_view text, const Blanks& blanks, Before before);
  void encode_part(std::string_view text, Before before, std::vector<std::int32_t>& tokens) const;
  void encode_words(std::string_view text, std::vector<std::int32_t>& tokens) const;
  [[nodiscard]] std::size_t joined_word(std::string_view text) const;
  void merge_word(std::string_view word, std::vector<std::int32_t>& tokens) const;
  void note_joints();
  [[nodiscard]] bool may_cut() const;

  TokenizerParts parts_;
  std::uint32_t number_;  // differs from any other tokenizer's
  // Bloom filter of the neighboring characters within tokens that merges make; merges never join other neighbors.
  std::vector<bool> joints_;
  bool may_cut_ = false;
};

}  // namespace mn::data

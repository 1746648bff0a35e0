/// Text as tokens, the numbers that language models read and write.
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include <nlohmann/json_fwd.hpp>

namespace mn {

/// Which texts the tokens 0 … size() − 1 stand for. Three kinds: the bytes; the characters (UTF-8) of a text; byte
/// pairs, the 256 bytes and what merges of two tokens make (Sennrich et al. 2016, arXiv:1508.07909, on bytes as GPT-2
/// does). decode(encode(text)) is the text. Immutable: any thread may use it.
class Vocabulary {
 public:
  /// A merge joins two adjacent tokens into one.
  using Merge = std::pair<std::int32_t, std::int32_t>;
  /// For tables by merge.
  struct MergeHash {
    /// Both tokens count.
    std::size_t operator()(const Merge& merge) const noexcept {
      const auto both = static_cast<std::uint64_t>(merge.first) << 32 | static_cast<std::uint32_t>(merge.second);
      return both * 0x9E3779B97F4A7C15U >> 20;
    }
  };

  /// Token i is byte i.
  [[nodiscard]] static Vocabulary of_bytes();
  /// Token i is character i. Throws ArgumentError unless all entries are different, and one character each.
  [[nodiscard]] static Vocabulary of_characters(std::vector<std::string> characters);
  /// Token 256 + i is the text of merge i. Throws ArgumentError if a merge uses later tokens, is repeated, or has a
  /// text of more than 256 bytes.
  [[nodiscard]] static Vocabulary of_merges(std::vector<Merge> merges);
  /// This vocabulary with a last token that ends a text. The token stands for no bytes: encode() never returns it, and
  /// decode() leaves it out.
  [[nodiscard]] Vocabulary with_end_of_text() &&;
  /// The end-of-text token, if the vocabulary has one.
  [[nodiscard]] std::optional<std::int32_t> end_of_text() const noexcept {
    return ends_texts_ ? std::optional(size() - 1) : std::nullopt;
  }
  /// Reads the JSON file that `mnshard tokens` writes. Throws DataError that names the file.
  [[nodiscard]] static Vocabulary load(const std::filesystem::path& path);
  /// The vocabulary in the JSON of to_json(). Throws DataError that begins with `source`.
  [[nodiscard]] static Vocabulary from_json(const nlohmann::json& document, const std::string& source);
  /// The file's content.
  [[nodiscard]] nlohmann::json to_json() const;

  /// Number of tokens.
  [[nodiscard]] std::int32_t size() const noexcept { return static_cast<std::int32_t>(texts_.size()); }
  /// The text of a token. Throws ArgumentError if the number is not a token.
  [[nodiscard]] const std::string& text(std::int32_t token) const;
  /// The tokens of a text. Throws ArgumentError for a character that the vocabulary lacks; a vocabulary of characters
  /// also rejects text that is not UTF-8.
  [[nodiscard]] std::vector<std::int32_t> encode(std::string_view text) const;
  /// The text of tokens. Throws ArgumentError if a number is not a token.
  [[nodiscard]] std::string decode(std::span<const std::int32_t> tokens) const;
  /// Number of bytes of `text` whose tokens do not depend on the bytes that follow `text`. Encode the rest together
  /// with these.
  [[nodiscard]] std::size_t complete(std::string_view text) const;
  /// Equal vocabularies encode every text to equal tokens.
  bool operator==(const Vocabulary& other) const { return kind_ == other.kind_ && texts_ == other.texts_; }

 private:
  enum class Kind : std::uint8_t { kBytes, kCharacters, kMerges };
  Vocabulary(Kind kind, std::vector<std::string> texts);
  void encode_words(std::string_view text, std::vector<std::int32_t>& tokens) const;
  void encode_word(std::string_view word, std::vector<std::int32_t>& tokens) const;

  Kind kind_;
  std::vector<std::string> texts_;                             // by token; the end of a text is the last, and empty
  bool ends_texts_ = false;                                    // whether there is an end of a text
  std::unordered_map<std::string, std::int32_t> characters_;   // kCharacters: the tokens
  std::vector<Merge> merges_;                                  // kMerges
  std::unordered_map<Merge, std::int32_t, MergeHash> merged_;  // the token of each merge
};

/// The merges of words and how often each occurs, most frequent pair first, until there are `size` tokens or no pair
/// occurs twice. A function of its arguments alone.
[[nodiscard]] std::vector<Vocabulary::Merge> train_merges(const std::map<std::string, std::int64_t>& words,
                                                          std::int64_t size);

namespace data {

/// Length of the first word of a text: letters, digits, blanks or other signs in a row; a blank before letters, digits
/// or signs belongs to them. Merges never cross words. Bytes outside ASCII are letters. 0 for no text.
[[nodiscard]] std::size_t first_word(std::string_view text) noexcept;

/// Length in bytes of the first character (UTF-8) of a text: 0 for no text, −1 if the text is not UTF-8, −2 if it ends
/// within the character.
[[nodiscard]] int first_character(std::string_view text) noexcept;

}  // namespace data
}  // namespace mn

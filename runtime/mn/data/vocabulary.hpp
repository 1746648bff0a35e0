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

/// A vocabulary holds the texts of the tokens 0 … size() − 1. Tokens are bytes, or UTF-8 characters, or byte pairs: the
/// 256 bytes, and texts made by merging two tokens (Sennrich et al. 2016, arXiv:1508.07909, applied to bytes as in
/// GPT-2). decode(encode(text)) is the text. A Vocabulary never changes, so any number of threads may use it.
class Vocabulary {
 public:
  /// A merge joins two adjacent tokens into one.
  using Merge = std::pair<std::int32_t, std::int32_t>;
  /// Hash of a merge, for unordered containers with merges as keys.
  struct MergeHash {
    /// The hash depends on both tokens.
    std::size_t operator()(const Merge& merge) const noexcept {
      const auto both = static_cast<std::uint64_t>(merge.first) << 32 | static_cast<std::uint32_t>(merge.second);
      return both * 0x9E3779B97F4A7C15U >> 20;
    }
  };

  /// Token i is byte i.
  [[nodiscard]] static Vocabulary of_bytes();
  /// Token i is character i. Throws ArgumentError unless each entry is one character and all entries differ.
  [[nodiscard]] static Vocabulary of_characters(std::vector<std::string> characters);
  /// Tokens 0 … 255 are the bytes, and token 256 + i is the text of merge i. Throws ArgumentError if a merge uses later
  /// tokens, is repeated, or has a text of more than 256 bytes.
  [[nodiscard]] static Vocabulary of_merges(std::vector<Merge> merges);
  /// Adds a last token, which marks the end of a text, without bytes: encode() never returns it, and decode() omits it.
  [[nodiscard]] Vocabulary with_end_of_text() &&;
  /// The end-of-text token, if the vocabulary has one.
  [[nodiscard]] std::optional<std::int32_t> end_of_text() const noexcept {
    return ends_texts_ ? std::optional(size() - 1) : std::nullopt;
  }
  /// Reads a JSON file of `mnshard tokens`. If it can't be read or is not valid, throws a DataError that names it.
  [[nodiscard]] static Vocabulary load(const std::filesystem::path& path);
  /// The vocabulary in the JSON of to_json(). If the JSON is not valid, throws a DataError that begins with `source`.
  [[nodiscard]] static Vocabulary from_json(const nlohmann::json& document, const std::string& source);
  /// The content of the file that load() reads.
  [[nodiscard]] nlohmann::json to_json() const;

  /// Number of tokens.
  [[nodiscard]] std::int32_t size() const noexcept { return static_cast<std::int32_t>(texts_.size()); }
  /// The text for which a token stands. Throws ArgumentError if the number is not a token.
  [[nodiscard]] const std::string& text(std::int32_t token) const;
  /// The tokens of a text. Throws ArgumentError for a character that the vocabulary lacks and, in a vocabulary of
  /// characters, for text that is not UTF-8.
  [[nodiscard]] std::vector<std::int32_t> encode(std::string_view text) const;
  /// The text for which the tokens stand. Throws ArgumentError if a number is not a token.
  [[nodiscard]] std::string decode(std::span<const std::int32_t> tokens) const;
  /// Returns how much of the beginning of `text` can be encoded now, because its tokens do not depend on bytes that
  /// follow `text`. Encode the rest together with these bytes.
  [[nodiscard]] std::size_t complete(std::string_view text) const;
  /// True if the two vocabularies are equal.
  bool operator==(const Vocabulary& other) const { return kind_ == other.kind_ && texts_ == other.texts_; }

 private:
  enum class Kind : std::uint8_t { kBytes, kCharacters, kMerges };
  Vocabulary(Kind kind, std::vector<std::string> texts);
  void encode_words(std::string_view text, std::vector<std::int32_t>& tokens) const;
  void encode_word(std::string_view word, std::vector<std::int32_t>& tokens) const;

  Kind kind_;
  // [tokens] the text of each token. An end-of-text token is the last one, and its text is empty.
  std::vector<std::string> texts_;
  bool ends_texts_ = false;                                    // whether there is an end-of-text token
  std::unordered_map<std::string, std::int32_t> characters_;   // kCharacters: the token of each character
  std::vector<Merge> merges_;                                  // kMerges: in the order of learning
  std::unordered_map<Merge, std::int32_t, MergeHash> merged_;  // kMerges: the token of each merge
};

/// Learns the merges of a vocabulary of `size` tokens from words and their frequencies. Each merge joins the pair of
/// tokens that is most frequent after the earlier merges. Ends early if no pair occurs twice. The result is a function
/// of the arguments alone.
[[nodiscard]] std::vector<Vocabulary::Merge> train_merges(const std::map<std::string, std::int64_t>& words,
                                                          std::int64_t size);

namespace data {

/// Length of the first word of a text; 0 if the text is empty. A word is a run of letters, of digits, of blanks or of
/// other signs. One blank before letters, digits or signs belongs to their word. Bytes outside ASCII count as letters.
/// A word has at most 256 bytes. Merges never cross words.
[[nodiscard]] std::size_t first_word(std::string_view text) noexcept;

/// Length in bytes of the first UTF-8 character: 0 if the text is empty, −1 if the text is not UTF-8, −2 if the text
/// ends in the middle of the character.
[[nodiscard]] int first_character(std::string_view text) noexcept;
/// The length in bytes of a UTF-8 text without a last character that is cut off.
[[nodiscard]] std::size_t complete_characters(std::string_view text) noexcept;

}  // namespace data
}  // namespace mn

/// Text as tokens, the numbers that language models read and write.
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include <nlohmann/json_fwd.hpp>

namespace mn {

namespace data {
class BytePairs;
class Tokenizer;
}  // namespace data

/// A vocabulary holds the texts of the tokens 0 … size() − 1. Tokens are bytes, or UTF-8 characters, or byte pairs: the
/// 256 bytes, and texts made by merging two tokens (Sennrich et al. 2016, arXiv:1508.07909, applied to bytes as in
/// GPT-2). decode(encode(text)) is the text. Or the vocabulary is another program's tokenizer.json or .tiktoken file;
/// then tokens are the same as in Python's `tokenizers` (with add_special_tokens=False) or tiktoken (encode_ordinary),
/// and decode() is decode(skip_special_tokens=True), but with bytes that are not UTF-8 as they are. A Vocabulary never
/// changes, so any number of threads may use it.
class Vocabulary {
 public:
  /// A merge joins two adjacent tokens into one.
  using Merge = std::pair<std::int32_t, std::int32_t>;

  /// Token i is byte i.
  [[nodiscard]] static Vocabulary of_bytes();
  /// Token i is character i. Throws ArgumentError unless each entry is one character and all entries differ.
  [[nodiscard]] static Vocabulary of_characters(std::vector<std::string> characters);
  /// Tokens 0 … 255 are the bytes, and token 256 + i is the text of merge i. Throws ArgumentError if a merge uses later
  /// tokens, is repeated, or has a text of more than 256 bytes.
  [[nodiscard]] static Vocabulary of_merges(std::vector<Merge> merges);
  /// Adds a last token, which marks the end of a text, without bytes: encode() never returns it, and decode() omits it.
  /// Throws ArgumentError for another program's vocabulary.
  [[nodiscard]] Vocabulary with_end_of_text() &&;
  /// The end-of-text token, if the vocabulary has one: the token that a tokenizer.json puts after a text, and else
  /// `<|endoftext|>`, `<|end_of_text|>` or `</s>`.
  [[nodiscard]] std::optional<std::int32_t> end_of_text() const noexcept { return end_of_text_; }
  /// The token that a tokenizer.json puts before a text. encode() does not.
  [[nodiscard]] std::optional<std::int32_t> begin_of_text() const noexcept { return begin_of_text_; }
  /// Reads a vocabulary.json of `mnshard tokens`, a tokenizer.json or a .tiktoken file. If it can't be read or is not
  /// valid, throws a DataError that names it.
  [[nodiscard]] static Vocabulary load(const std::filesystem::path& path);
  /// The vocabulary in the JSON of to_json(), or in a tokenizer.json. If the JSON is not valid, throws a DataError that
  /// begins with `source`.
  [[nodiscard]] static Vocabulary from_json(const nlohmann::json& document, const std::string& source);
  /// The content of a vocabulary.json. For a tokenizer.json, its content.
  [[nodiscard]] nlohmann::json to_json() const;

  /// Number of tokens.
  [[nodiscard]] std::int32_t size() const noexcept { return static_cast<std::int32_t>(texts_.size()); }
  /// The text for which a token stands; empty for special tokens. Throws ArgumentError if the number is not a token.
  [[nodiscard]] const std::string& text(std::int32_t token) const;
  /// The tokens of a text. Throws ArgumentError for a character that the vocabulary lacks and, in a vocabulary of
  /// characters, for text that is not UTF-8. `continues` tells that `text` follows a text that ended where complete()
  /// or can_cut() allowed: some vocabularies begin a text with a blank.
  [[nodiscard]] std::vector<std::int32_t> encode(std::string_view text, bool continues = false) const;
  /// The text for which the tokens stand. Throws ArgumentError if a number is not a token. `continues` tells that the
  /// tokens follow others: a blank with which the vocabulary begins a text is omitted otherwise. If the last character
  /// may lack bytes, as in a text that grows token by token, data::complete_characters() tells where it begins.
  [[nodiscard]] std::string decode(std::span<const std::int32_t> tokens, bool continues = false) const;
  /// Returns how much of the beginning of `text` can be encoded now, because its tokens do not depend on bytes that
  /// follow `text`. Encode the rest together with these bytes.
  [[nodiscard]] std::size_t complete(std::string_view text) const;
  /// True if a text in which `text` occurs may be cut at offset `at` of `text`, and the parts have the tokens of the
  /// whole. 0 < at < text.size().
  [[nodiscard]] bool can_cut(std::string_view text, std::size_t at) const;
  /// True if the two vocabularies are equal.
  bool operator==(const Vocabulary& other) const;

 private:
  enum class Kind : std::uint8_t { kBytes, kCharacters, kMerges, kTokenizer };
  Vocabulary(Kind kind, std::vector<std::string> texts);
  static Vocabulary of_tokenizer(std::shared_ptr<const data::Tokenizer> tokenizer, std::string document);
  void encode_words(std::string_view text, std::vector<std::int32_t>& tokens) const;

  Kind kind_;
  std::vector<std::string> texts_;  // [tokens] the text of each token; empty for special tokens
  std::optional<std::int32_t> begin_of_text_, end_of_text_;
  std::unordered_map<std::string, std::int32_t> characters_;  // kCharacters: the token of each character
  std::vector<Merge> merges_;                                 // kMerges: in the order of learning
  std::shared_ptr<const data::BytePairs> pairs_;              // kMerges: merges_ by their tokens
  std::shared_ptr<const data::Tokenizer> tokenizer_;          // kTokenizer
  std::string document_;                                      // kTokenizer: to_json() as text
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

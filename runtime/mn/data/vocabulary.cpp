// Encodes texts as tokens and decodes tokens.
//
// (1) Vocabularies of bytes and of merges can encode every byte string, and decode(encode(text)) == text.
// (2) Merges are applied in the order of learning: of all pairs in a word, the pair learned first is merged first, and
//     of equal pairs the leftmost.
// (3) A vocabulary from a JSON document is checked: its merges name only earlier tokens, and no text has more than
//     kMaxBytes bytes.
//
// Cost: a vocabulary of merges encodes each different word of a text once.
#include <mn/data/vocabulary.hpp>

#include <algorithm>

#include <boost/locale/utf.hpp>

#include <mn/core/error.hpp>
#include <mn/core/file.hpp>
#include <mn/core/file_kind.hpp>
#include <mn/core/json.hpp>
#include <mn/data/tokenizer/byte_pairs.hpp>
#include <mn/data/tokenizer/tiktoken.hpp>
#include <mn/data/tokenizer/tokenizer.hpp>
#include <mn/data/tokenizer/tokenizer_json.hpp>

namespace mn {
namespace {

using nlohmann::json;

constexpr std::int32_t kBytes = 256;
constexpr std::size_t kMaxBytes = 256;  // longest text of a token, in bytes

std::vector<std::string> byte_texts() {
  std::vector<std::string> texts;
  for (int byte = 0; byte < kBytes; ++byte) texts.emplace_back(1, static_cast<char>(byte));
  return texts;
}

/// Accepts whole numbers only, because the conversion of other numbers may be undefined.
std::vector<Vocabulary::Merge> merges_of(const json& list) {
  std::vector<Vocabulary::Merge> merges;
  for (const json& pair : list) {
    for (const json& token : pair) {
      if (!token.is_number_integer()) throw ArgumentError("a merge of a vocabulary is not of two tokens");
    }
    merges.push_back(pair.get<Vocabulary::Merge>());
  }
  return merges;
}

/// Calls read(); an ArgumentError becomes a DataError that begins with `source`.
template <class Read>
auto on_argument_error(const std::string& source, Read read) {
  try {
    return read();
  } catch (const ArgumentError& error) {
    throw DataError(source + ": " + error.what());
  }
}

}  // namespace

namespace data {

std::size_t first_word(std::string_view text) noexcept {
  enum class Class { kBlank, kLetter, kDigit, kSign };
  const auto class_of = [](char c) {
    const auto byte = static_cast<unsigned char>(c);
    if (c == ' ' || (c >= '\t' && c <= '\r')) return Class::kBlank;
    if (c >= '0' && c <= '9') return Class::kDigit;
    const bool letter = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || byte >= 0x80;
    return letter ? Class::kLetter : Class::kSign;
  };
  if (text.empty()) return 0;
  const bool leads = text.size() > 1 && text[0] == ' ' && class_of(text[1]) != Class::kBlank;
  std::size_t end = leads ? 1 : 0;
  const Class kind = class_of(text[end]);
  while (end < text.size() && end < kMaxBytes && class_of(text[end]) == kind) ++end;
  // The last of several blanks before a word belongs to the word.
  const bool gives = kind == Class::kBlank && end > 1 && end < text.size() && text[end - 1] == ' ' &&
                     class_of(text[end]) != Class::kBlank;
  return gives ? end - 1 : end;
}

int first_character(std::string_view text) noexcept {
  namespace utf = boost::locale::utf;
  if (text.empty()) return 0;
  const char* end = text.data();
  const utf::code_point character = utf::utf_traits<char>::decode(end, text.data() + text.size());
  if (character == utf::illegal) return -1;
  if (character == utf::incomplete) return -2;
  return static_cast<int>(end - text.data());
}

std::size_t complete_characters(std::string_view text) noexcept {
  for (std::size_t back = 1; back <= std::min<std::size_t>(3, text.size()); ++back) {
    if (first_character(text.substr(text.size() - back)) == -2) return text.size() - back;
  }
  return text.size();
}

}  // namespace data

Vocabulary::Vocabulary(Kind kind, std::vector<std::string> texts) : kind_(kind), texts_(std::move(texts)) {}

Vocabulary Vocabulary::of_bytes() { return {Kind::kBytes, byte_texts()}; }

Vocabulary Vocabulary::of_characters(std::vector<std::string> characters) {
  Vocabulary made(Kind::kCharacters, std::move(characters));
  for (std::int32_t token = 0; token < made.size(); ++token) {
    const std::string& character = made.texts_[static_cast<std::size_t>(token)];
    const bool one = !character.empty() && data::first_character(character) == static_cast<int>(character.size());
    if (one && made.characters_.emplace(character, token).second) continue;
    throw ArgumentError("a vocabulary's entry " + std::to_string(token) + " is not a single new character");
  }
  if (made.texts_.empty()) throw ArgumentError("a vocabulary without characters");
  return made;
}

Vocabulary Vocabulary::of_merges(std::vector<Merge> merges) {
  Vocabulary made(Kind::kMerges, byte_texts());
  auto pairs = std::make_shared<data::BytePairs>();
  for (const Merge& merge : merges) {
    const std::int32_t next = made.size();
    const auto known = [&](std::int32_t token) { return token >= 0 && token < next; };
    const bool is_possible =
        known(merge.first) && known(merge.second) && pairs->add(merge.first, merge.second, next, next);
    if (is_possible) made.texts_.push_back(made.text(merge.first) + made.text(merge.second));
    if (!is_possible || made.texts_.back().size() > kMaxBytes) {
      throw ArgumentError("merge " + std::to_string(next - kBytes) +
                          " of a vocabulary is not of two earlier tokens, or not new, or too long");
    }
  }
  made.merges_ = std::move(merges);
  made.pairs_ = std::move(pairs);
  return made;
}

Vocabulary Vocabulary::of_tokenizer(std::shared_ptr<const data::Tokenizer> tokenizer, std::string document) {
  Vocabulary made(Kind::kTokenizer, tokenizer->parts().texts);
  made.begin_of_text_ = tokenizer->parts().begin_of_text;
  made.end_of_text_ = tokenizer->parts().end_of_text;
  made.tokenizer_ = std::move(tokenizer);
  made.document_ = std::move(document);
  return made;
}

Vocabulary Vocabulary::with_end_of_text() && {
  if (end_of_text_) return std::move(*this);
  if (kind_ == Kind::kTokenizer) throw ArgumentError("a tokenizer without a known end-of-text token");
  end_of_text_ = size();
  texts_.emplace_back();
  return std::move(*this);
}

Vocabulary Vocabulary::load(const std::filesystem::path& path) {
  const std::string text = read_file(path);
  if (const auto kind = kind_of_file(text); kind && !kind->is_text) {
    throw DataError(path.string() + " is not a vocabulary but " + kind->name + ": " + kind->remedy);
  }
  if (!data::is_tiktoken(text)) {
    return from_json(
        parse_json(text, path.string() + ", which should be a vocabulary.json, tokenizer.json or .tiktoken,"),
        path.string());
  }
  const auto encoding =
      on_argument_error(path.string(), [&] { return data::tiktoken_encoding(text, path.filename().string()); });
  return from_json({{"vocabulary", "tiktoken"}, {"encoding", encoding}, {"tokens", text}}, path.string());
}

Vocabulary Vocabulary::from_json(const json& document, const std::string& source) {
  const auto read_made = [&] {
    const auto kind = document.at("vocabulary").get<std::string>();
    if (kind == "bytes") return of_bytes();
    if (kind == "characters") return of_characters(document.at("characters").get<std::vector<std::string>>());
    if (kind == "bpe") return of_merges(merges_of(document.at("merges")));
    throw ArgumentError("\"" + kind + "\" is not a kind of vocabulary");
  };
  const auto read = [&] {
    if (!document.contains("vocabulary")) return of_tokenizer(data::read_tokenizer_json(document), document.dump());
    if (document.at("vocabulary") == "tiktoken") {
      return of_tokenizer(
          data::read_tiktoken(document.at("tokens").get<std::string>(), document.at("encoding").get<std::string>()),
          document.dump());
    }
    Vocabulary vocabulary = read_made();
    return document.value("end_of_text", false) ? std::move(vocabulary).with_end_of_text() : vocabulary;
  };
  if (!document.is_object() || !(document.contains("vocabulary") || document.contains("model"))) {
    throw DataError(source + " is neither a vocabulary.json of `mnshard tokens` nor a tokenizer.json");
  }
  return on_argument_error(source, [&] { return read_json(source, read); });
}

json Vocabulary::to_json() const {
  if (kind_ == Kind::kTokenizer) return json::parse(document_);
  json document = {{"vocabulary", "bytes"}};
  if (kind_ == Kind::kMerges) document = {{"vocabulary", "bpe"}, {"merges", merges_}};
  if (kind_ == Kind::kCharacters) {
    document = {{"vocabulary", "characters"}, {"characters", texts_}};
    if (end_of_text_) document["characters"].erase(document["characters"].size() - 1);
  }
  if (end_of_text_) document["end_of_text"] = true;
  return document;
}

bool Vocabulary::operator==(const Vocabulary& other) const {
  return kind_ == other.kind_ && texts_ == other.texts_ && merges_ == other.merges_ && document_ == other.document_;
}

const std::string& Vocabulary::text(std::int32_t token) const {
  if (token >= 0 && token < size()) return texts_[static_cast<std::size_t>(token)];
  throw ArgumentError("there is no token " + std::to_string(token) + " in a vocabulary of " + std::to_string(size()));
}

std::vector<std::int32_t> Vocabulary::encode(std::string_view text, bool continues) const {
  std::vector<std::int32_t> tokens;
  if (kind_ == Kind::kTokenizer) {
    tokenizer_->encode(text, continues, tokens);
  } else if (kind_ == Kind::kBytes) {
    for (const char byte : text) tokens.push_back(static_cast<unsigned char>(byte));
  } else if (kind_ == Kind::kMerges) {
    encode_words(text, tokens);
  } else {
    while (!text.empty()) {
      const int length = data::first_character(text);
      if (length < 0) throw ArgumentError("the text is not UTF-8; a vocabulary of bytes or of byte pairs takes any");
      const std::string character(text.substr(0, static_cast<std::size_t>(length)));
      const auto found = characters_.find(character);
      if (found == characters_.end()) {
        throw ArgumentError("the vocabulary lacks the character " + json(character).dump());
      }
      tokens.push_back(found->second);
      text.remove_prefix(character.size());
    }
  }
  return tokens;
}

/// A word that occurred before is not encoded again: its tokens are copied from the first occurrence.
void Vocabulary::encode_words(std::string_view text, std::vector<std::int32_t>& tokens) const {
  struct Run {
    std::size_t begin = 0, size = 0;  // in `tokens`
  };
  std::unordered_map<std::string_view, Run> known;
  data::BytePairs::Scratch scratch;
  while (!text.empty()) {
    const std::string_view word = text.substr(0, data::first_word(text));
    text.remove_prefix(word.size());
    const auto [found, is_new] = known.try_emplace(word);
    const std::size_t begin = tokens.size();
    Run& run = found->second;
    if (is_new) {
      for (const char byte : word) tokens.push_back(static_cast<unsigned char>(byte));
      run = {.begin = begin, .size = pairs_->merge(std::span(tokens).subspan(begin), scratch)};
      tokens.resize(begin + run.size);
    } else {
      tokens.resize(begin + run.size);
      std::copy_n(tokens.begin() + static_cast<std::ptrdiff_t>(run.begin), run.size,
                  tokens.begin() + static_cast<std::ptrdiff_t>(begin));
    }
  }
}

std::string Vocabulary::decode(std::span<const std::int32_t> tokens, bool continues) const {
  std::string result;
  for (const std::int32_t token : tokens) result += text(token);
  const bool drops_blank = kind_ == Kind::kTokenizer && !continues && tokenizer_->parts().drops_first_blank;
  if (drops_blank && result.starts_with(' ')) result.erase(0, 1);
  return result;
}

std::size_t Vocabulary::complete(std::string_view text) const {
  if (kind_ == Kind::kBytes) return text.size();
  if (kind_ == Kind::kCharacters) return data::complete_characters(text);
  if (kind_ == Kind::kTokenizer) {
    std::size_t end = text.empty() ? 0 : text.size() - 1;
    while (end > 0 && !can_cut(text, end)) --end;
    return end;
  }
  // Text that follows may lengthen the last word, or take away the last blank of the word before.
  std::size_t end = 0, before = 0;
  for (std::size_t at = 0; at < text.size(); at += data::first_word(text.substr(at))) {
    end = std::exchange(before, at);
  }
  return end;
}

bool Vocabulary::can_cut(std::string_view text, std::size_t at) const {
  if (kind_ == Kind::kTokenizer) return tokenizer_->can_cut(text, at);
  // In the other kinds, a word begins with the first of several blanks.
  const auto is_blank = [](char c) { return c == ' ' || (c >= '\t' && c <= '\r'); };
  return is_blank(text[at]) && !is_blank(text[at - 1]);
}

}  // namespace mn

// A part of the document that would change the tokens and that is not known here is an error, which prints the part.
#include <mn/data/tokenizer/tokenizer_json.hpp>

#include <algorithm>
#include <utility>

#include <mn/core/error.hpp>
#include <mn/core/json.hpp>
#include <mn/data/tokenizer/token_names.hpp>
#include <mn/data/tokenizer/unicode.hpp>

namespace mn::data {
namespace {

using nlohmann::json;
using Ids = std::unordered_map<std::string, std::int32_t>;

[[noreturn]] void fail_unknown(const std::string& what, const json& part) {
  throw ArgumentError("the tokenizer's " + what + " is not supported: " + json_text(part));
}

std::string type_of(const json& part) { return part.is_object() ? part.value("type", "") : ""; }

/// The elements of a Sequence, the part alone, or an empty list for null.
std::vector<json> parts_of(const json& document, const char* name, const char* list) {
  const json part = document.value(name, json());
  if (part.is_null()) return {};
  if (type_of(part) != "Sequence") return {part};
  return part.at(list).get<std::vector<json>>();
}

bool is_replacement(const json& part, std::string_view from, std::string_view to) {
  return type_of(part) == "Replace" && part.at("pattern").value("String", "") == from && part.at("content") == to;
}

bool is_byte_fallback(const std::string& name) {
  return name.size() == 6 && name.starts_with("<0x") && name.ends_with('>');
}

class TokenizerReader {
 public:
  explicit TokenizerReader(const json& document)
      : document_(document), model_(document.at("model")), added_(document.value("added_tokens", json::array())) {}

  [[nodiscard]] TokenizerParts read() {
    check_model();
    read_names();
    read_normalizer();
    read_pre_tokenizer();
    read_decoder();
    read_added_tokens();
    set_texts();
    read_merges();
    read_template();
    return std::move(parts_);
  }

 private:
  void check_model() {
    const std::string type = model_.value("type", "BPE");
    if (type != "BPE") throw ArgumentError("the tokenizer's model is " + json_quoted(type) + ", not BPE");
    for (const char* name : {"dropout", "continuing_subword_prefix", "end_of_word_suffix"}) {
      const json value = model_.value(name, json());
      const bool is_set = !value.is_null() && value != "" && value != 0;
      if (is_set) fail_unknown(name, value);
    }
    is_byte_level_ = !model_.value("byte_fallback", false);
    if (!is_byte_level_ && model_.value("ignore_merges", false)) fail_unknown("byte_fallback with ignore_merges", true);
  }

  void name_token(const std::string& name, std::int32_t id) {
    check_number(id, model_.at("vocab").size() + added_.size());
    if (id >= std::ssize(names_)) names_.resize(static_cast<std::size_t>(id) + 1);
    std::string& known = names_[static_cast<std::size_t>(id)];
    if (!known.empty() && known != name) {
      throw ArgumentError("tokens " + json_quoted(known) + " and " + json_quoted(name) + " have the same number " +
                          std::to_string(id));
    }
    known = name;
  }

  void read_names() {
    for (const auto& [name, id] : model_.at("vocab").items()) {
      if (name.empty()) throw ArgumentError("a token has no text");
      vocabulary_[name] = whole_number<std::int32_t>(id);
      name_token(name, vocabulary_[name]);
    }
    ids_ = vocabulary_;
  }

  void read_normalizer() {
    for (const json& part : parts_of(document_, "normalizer", "normalizers")) {
      if (type_of(part) == "NFC") {
        parts_.is_nfc = true;
      } else if (!is_byte_level_ && type_of(part) == "Prepend" && part.at("prepend") == kMetaspace) {
        parts_.blanks.prefix = Blanks::Prefix::kDouble;
      } else if (!is_byte_level_ && is_replacement(part, " ", kMetaspace)) {
        parts_.blanks.as_metaspace = true;
      } else {
        fail_unknown("normalizer", part);
      }
    }
    const bool is_whole = parts_.blanks.prefix == Blanks::Prefix::kNone || parts_.blanks.as_metaspace;
    if (!is_whole) fail_unknown("normalizer", document_.at("normalizer"));
  }

  void read_pre_tokenizer() {
    const auto parts = parts_of(document_, "pre_tokenizer", "pretokenizers");
    const json whole = document_.value("pre_tokenizer", json());
    if (!is_byte_level_) {
      if (parts.empty()) return;
      if (parts.size() > 1 || type_of(parts[0]) != "Metaspace") fail_unknown("pre-tokenizer", whole);
      return read_metaspace(parts[0]);
    }
    if (parts.empty() || parts.size() > 2 || type_of(parts.back()) != "ByteLevel") fail_unknown("pre-tokenizer", whole);
    if (parts.back().value("add_prefix_space", true)) parts_.late_blanks.prefix = Blanks::Prefix::kEach;
    const bool has_regex = parts.back().value("use_regex", true);
    if (parts.size() == 1 && has_regex) {
      parts_.pattern = named_pattern("gpt2");
      return;
    }
    const bool is_split = parts.size() == 2 && type_of(parts[0]) == "Split" && !has_regex;
    if (!is_split || parts_.late_blanks.prefix != Blanks::Prefix::kNone ||
        parts[0].value("behavior", "") != "Isolated" || parts[0].value("invert", false) ||
        !parts[0].at("pattern").contains("Regex")) {
      fail_unknown("pre-tokenizer", whole);
    }
    const auto regex = parts[0].at("pattern").at("Regex").get<std::string>();
    parts_.pattern = find_pattern(regex);
    if (parts_.pattern == nullptr) throw ArgumentError("the tokenizer's pattern is not known: " + json_text(regex));
  }

  void read_metaspace(const json& part) {
    const std::string scheme = part.value("prepend_scheme", part.value("add_prefix_space", true) ? "always" : "never");
    const std::array<std::pair<const char*, Blanks::Prefix>, 3> prefixes = {
        {{"first", Blanks::Prefix::kFirst}, {"always", Blanks::Prefix::kEach}, {"never", Blanks::Prefix::kNone}}};
    const auto* const found =
        std::ranges::find(prefixes, scheme, [](const auto& each) { return std::string(each.first); });
    if (found == prefixes.end() || part.at("replacement") != kMetaspace) fail_unknown("pre-tokenizer", part);
    parts_.late_blanks = {.prefix = found->second, .as_metaspace = true};
    parts_.splits_at_blanks = part.value("split", true);
  }

  void read_decoder() {
    const auto parts = parts_of(document_, "decoder", "decoders");
    const json whole = document_.value("decoder", json());
    if (is_byte_level_) {
      if (parts.size() != 1 || type_of(parts[0]) != "ByteLevel") fail_unknown("decoder", whole);
      return;
    }
    const bool is_known = (parts.size() == 3 || parts.size() == 4) && is_replacement(parts[0], kMetaspace, " ") &&
                          type_of(parts[1]) == "ByteFallback" && type_of(parts[2]) == "Fuse";
    parts_.drops_first_blank = is_known && parts.size() == 4;
    const bool strips = parts_.drops_first_blank && type_of(parts[3]) == "Strip" && parts[3].at("content") == " " &&
                        parts[3].at("start") == 1 && parts[3].at("stop") == 0;
    if (!is_known || strips != parts_.drops_first_blank) fail_unknown("decoder", whole);
  }

  /// The content that is found in normalized text: blanks are replaced and added as in a text.
  [[nodiscard]] std::string normalized(const std::string& content) const {
    std::string text = parts_.is_nfc ? nfc(content) : content;
    for (std::size_t at = 0; parts_.blanks.as_metaspace && (at = text.find(' ', at)) != std::string::npos;) {
      text.replace(at, 1, kMetaspace);
    }
    return (parts_.blanks.prefix == Blanks::Prefix::kDouble ? std::string(kMetaspace) : "") + text;
  }

  void read_added_tokens() {
    std::vector<AddedToken> early, late;
    for (const json& entry : added_) {
      AddedToken token{.content = entry.at("content").get<std::string>(),
                       .token = whole_number<std::int32_t>(entry.at("id")),
                       .single_word = entry.value("single_word", false),
                       .takes_left = entry.value("lstrip", false),
                       .takes_right = entry.value("rstrip", false)};
      if (token.content.empty()) throw ArgumentError("an added token has no text");
      const auto [known, is_new] = ids_.emplace(token.content, token.token);
      if (known->second != token.token) {
        throw ArgumentError("token " + json_quoted(token.content) + " has two numbers, " +
                            std::to_string(known->second) + " and " + std::to_string(token.token));
      }
      name_token(token.content, token.token);
      const bool is_late = entry.value("normalized", true);
      if (is_late) token.content = normalized(token.content);
      added_texts_[token.token] = entry.value("special", false) ? "" : text_of(token.content);
      (is_late ? late : early).push_back(std::move(token));
    }
    parts_.added = AddedTokens(std::move(early));
    parts_.added_late = AddedTokens(std::move(late));
  }

  [[nodiscard]] std::string text_of(const std::string& name) const {
    return is_byte_level_ ? byte_level_text(name) : metaspace_text(name);
  }

  void set_texts() {
    for (const std::string& name : names_) parts_.texts.push_back(text_of(name));
    for (const auto& [token, text] : added_texts_) parts_.texts[static_cast<std::size_t>(token)] = text;
    for (int byte = 0; byte < 256; ++byte) set_byte(byte);
    if (is_byte_level_) return;
    for (const auto& [name, id] : vocabulary_) {
      if (character_at(name, 0).bytes == name.size()) parts_.characters[name] = id;
    }
  }

  void set_byte(int byte) {
    const std::string name = is_byte_level_ ? byte_level_name(byte) : byte_fallback_name(byte);
    const auto found = vocabulary_.find(name);
    if (found == vocabulary_.end()) {
      throw ArgumentError("the tokenizer has no token " + json_quoted(name) + " for byte " + std::to_string(byte));
    }
    parts_.byte_tokens[static_cast<std::size_t>(byte)] = found->second;
    if (!is_byte_level_) parts_.texts[static_cast<std::size_t>(found->second)] = static_cast<char>(byte);
  }

  void read_merges() {
    if (model_.value("ignore_merges", false)) {
      for (const auto& [name, id] : vocabulary_) parts_.words[byte_level_text(name)] = id;
    }
    std::int32_t rank = 0;
    for (const json& merge : model_.at("merges")) {
      const auto [first, second] = halves_of(merge);
      const auto id_of = [&](const std::string& name) {
        const auto found = vocabulary_.find(name);
        if (found != vocabulary_.end()) return found->second;
        throw ArgumentError("merge " + std::to_string(rank) + " has " + json_quoted(name) + ", which is not a token");
      };
      if (!is_byte_level_ && (is_byte_fallback(first) || is_byte_fallback(second)))
        fail_unknown("merge of bytes", merge);
      parts_.merges.add(id_of(first), id_of(second), rank, id_of(first + second));
      ++rank;
      if (!is_byte_level_) parts_.merged.push_back(first + second);
    }
  }

  static std::pair<std::string, std::string> halves_of(const json& merge) {
    if (merge.is_array() && merge.size() == 2) return merge.get<std::pair<std::string, std::string>>();
    const auto text = merge.is_string() ? merge.get<std::string>() : std::string();
    const std::size_t blank = text.find(' ');
    if (blank == std::string::npos || text.find(' ', blank + 1) != std::string::npos) {
      throw ArgumentError("a merge is not of two tokens: " + json_quoted(json_text(merge)));
    }
    return {text.substr(0, blank), text.substr(blank + 1)};
  }

  /// The template's tokens around a text, and else the end-of-text token of a known model.
  void read_template() {
    for (const json& part : parts_of(document_, "post_processor", "processors")) {
      if (type_of(part) == "TemplateProcessing") read_template(part);
    }
    for (const char* name : {"<|endoftext|>", "<|end_of_text|>", "</s>"}) {
      const auto found = ids_.find(name);
      if (found != ids_.end() && !parts_.end_of_text) parts_.end_of_text = found->second;
    }
  }
  void read_template(const json& part) {
    bool is_after = false;
    for (const json& item : part.at("single")) {
      if (item.contains("Sequence")) {
        is_after = true;
        continue;
      }
      const auto name = item.at("SpecialToken").at("id").get<std::string>();
      const auto tokens = whole_numbers<std::int32_t>(part.at("special_tokens").at(name).at("ids"));
      auto& place = is_after ? parts_.end_of_text : parts_.begin_of_text;
      const bool is_token = tokens.size() == 1 && tokens[0] >= 0 && tokens[0] < std::ssize(parts_.texts);
      if (!is_token || place) fail_unknown("template", part.at("single"));
      place = tokens[0];
    }
  }

  const json& document_;
  const json& model_;
  const json added_;  // added_tokens
  bool is_byte_level_ = true;
  std::vector<std::string> names_;  // [tokens] as in the file
  Ids vocabulary_, ids_;            // of the model; with added tokens
  std::unordered_map<std::int32_t, std::string> added_texts_;
  TokenizerParts parts_;
};

}  // namespace

std::shared_ptr<const Tokenizer> read_tokenizer_json(const json& document) {
  return std::make_shared<const Tokenizer>(TokenizerReader(document).read());
}

}  // namespace mn::data

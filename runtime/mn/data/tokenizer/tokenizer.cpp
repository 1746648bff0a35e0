// A text becomes tokens in five steps: cut it at added tokens; normalize the parts; cut these at the added tokens that
// are found in normalized text; cut what is left into words; merge the words' bytes or characters.
//
// (1) Without a pattern, the `tokenizers` library takes the whole text as one word. No merge joins two characters that
//     are not neighbors within some merged token, so here a word ends between such characters: the tokens are the same.
// (2) can_cut() is true only at a border of words that no text around it can move.
#include <mn/data/tokenizer/tokenizer.hpp>

#include <algorithm>
#include <atomic>

#include <mn/data/tokenizer/unicode.hpp>
#include <mn/data/tokenizer/word_cache.hpp>

namespace mn::data {
namespace {

struct EncodingScratch {
  WordCache cache;
  BytePairs::Scratch merge;
};

EncodingScratch& scratch_of(std::uint32_t tokenizer) {
  thread_local EncodingScratch scratch;
  scratch.cache.use_for(tokenizer);
  return scratch;
}

bool is_alphanumeric(char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9'); }

/// The bytes of a character as a number.
std::uint64_t packed(std::string_view character) {
  std::uint64_t number = 0;
  for (const char byte : character) number = number << 8 | static_cast<unsigned char>(byte);
  return number;
}

/// The bit of a pair of neighboring characters in the filter of joints.
std::size_t joint(std::uint64_t first, std::uint64_t second) {
  constexpr int kBits = 20;
  return static_cast<std::size_t>((first * 0x9E3779B97F4A7C15U + second * 0xC2B2AE3D27D4EB4FU) >> (64 - kBits));
}
constexpr std::size_t kJoints = std::size_t{1} << 20;

bool is_plain(const Blanks& blanks) { return blanks.prefix == Blanks::Prefix::kNone && !blanks.as_metaspace; }

}  // namespace

Tokenizer::Tokenizer(TokenizerParts parts) : parts_(std::move(parts)) {
  static std::atomic<std::uint32_t> count{0};
  number_ = ++count;
  may_cut_ = may_cut();
  note_joints();
}

void Tokenizer::note_joints() {
  if (parts_.characters.empty()) return;
  joints_.resize(kJoints);
  for (const std::string& text : parts_.merged) {
    std::uint64_t before = 0;
    for (std::size_t at = 0; at < text.size();) {
      const std::size_t bytes = character_at(text, at).bytes;
      const std::uint64_t character = packed(std::string_view(text).substr(at, bytes));
      if (at > 0) joints_[joint(before, character)] = true;
      before = character;
      at += bytes;
    }
  }
}

/// Whether (2) holds for all merges and added tokens: none goes on where can_cut() cuts, or takes blanks there.
bool Tokenizer::may_cut() const {
  const auto goes_on = [](std::string_view text, std::string_view blank) {
    for (std::size_t at = 1; at < text.size(); ++at) {
      if (text[at - 1] == '\n' || (is_alphanumeric(text[at - 1]) && text.substr(at).starts_with(blank))) return true;
    }
    return false;
  };
  const auto is_clean = [&](const AddedToken& token) {
    const bool begins =
        is_alphanumeric(token.content.front()) || static_cast<unsigned char>(token.content.front()) > 127;
    const bool ends = is_alphanumeric(token.content.back()) || token.content.back() == '\n';
    return !goes_on(token.content, " ") && !goes_on(token.content, kMetaspace) && !ends &&
           !(begins && token.takes_left);
  };
  return std::ranges::all_of(parts_.added.all(), is_clean) && std::ranges::all_of(parts_.added_late.all(), is_clean) &&
         std::ranges::none_of(parts_.merged, [&](const std::string& text) { return goes_on(text, kMetaspace); });
}

bool Tokenizer::can_cut(std::string_view text, std::size_t at) const {
  if (!may_cut_) return false;
  if (text[at] == ' ') return is_alphanumeric(text[at - 1]);
  return text[at - 1] == '\n' && (character_at(text, at).category & (kLetter | kNumber)) != 0;
}

std::string Tokenizer::with_blanks(std::string_view text, const Blanks& blanks, Before before) {
  using Prefix = Blanks::Prefix;
  const std::string_view blank = blanks.as_metaspace ? kMetaspace : " ";
  const bool has_blank = text.starts_with(' ') || text.starts_with(blank);
  const bool wants_blank = before == Before::kNothing ? blanks.prefix != Prefix::kNone
                                                      : before == Before::kToken && blanks.prefix > Prefix::kFirst;
  std::string result;
  if (wants_blank && !text.empty() && (!has_blank || blanks.prefix == Prefix::kDouble)) result += blank;
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t end = blanks.as_metaspace ? std::min(text.find(' ', at), text.size()) : text.size();
    result.append(text, at, end - at);
    if (end < text.size()) result += kMetaspace;
    at = end + 1;
  }
  return result;
}

void Tokenizer::encode(std::string_view text, bool continues, std::vector<std::int32_t>& tokens) const {
  for (const TextPart& part : parts_.added.split(text)) {
    if (part.token >= 0) {
      tokens.push_back(part.token);
      continue;
    }
    const Before at_begin = continues ? Before::kText : Before::kNothing;
    const Before before = part.text.data() == text.data() ? at_begin : Before::kToken;
    std::string normalized;
    if (parts_.is_nfc) normalized = nfc(part.text);
    if (!is_plain(parts_.blanks))
      normalized = with_blanks(parts_.is_nfc ? normalized : part.text, parts_.blanks, before);
    const bool is_same = !parts_.is_nfc && is_plain(parts_.blanks);
    encode_part(is_same ? part.text : normalized, before, tokens);
  }
}

/// Encodes normalized text.
void Tokenizer::encode_part(std::string_view text, Before before, std::vector<std::int32_t>& tokens) const {
  for (const TextPart& part : parts_.added_late.split(text)) {
    if (part.token >= 0) {
      tokens.push_back(part.token);
    } else if (is_plain(parts_.late_blanks)) {
      encode_words(part.text, tokens);
    } else {
      const bool is_begin = part.text.data() == text.data();
      encode_words(with_blanks(part.text, parts_.late_blanks, is_begin ? before : Before::kToken), tokens);
    }
  }
}

void Tokenizer::encode_words(std::string_view text, std::vector<std::int32_t>& tokens) const {
  WordCache& cache = scratch_of(number_).cache;
  while (!text.empty()) {
    const std::size_t bytes = parts_.pattern != nullptr ? first_word(*parts_.pattern, text) : joined_word(text);
    const std::string_view word = text.substr(0, bytes);
    text.remove_prefix(bytes);
    if (bytes > WordCache::kMaxBytes) {
      merge_word(word, tokens);
      continue;
    }
    WordCache::Slot& slot = cache.slot_of(word);
    if (cache.holds(slot, word)) {
      tokens.insert(tokens.end(), slot.tokens.begin(), slot.tokens.begin() + slot.count);
      continue;
    }
    const std::size_t begin = tokens.size();
    merge_word(word, tokens);
    cache.keep(slot, word, std::span(tokens).subspan(begin));
  }
}

/// Returns the length of the first word by (1).
std::size_t Tokenizer::joined_word(std::string_view text) const {
  std::uint64_t before = 0;
  std::size_t at = 0;
  while (at < text.size()) {
    const std::size_t bytes = character_at(text, at).bytes;
    const std::string_view next = text.substr(at, bytes);
    const std::uint64_t character = packed(next);
    const bool is_joined = joints_[joint(before, character)] && !(parts_.splits_at_blanks && next == kMetaspace);
    if (at > 0 && !is_joined) break;
    before = character;
    at += bytes;
  }
  return at;
}

void Tokenizer::merge_word(std::string_view word, std::vector<std::int32_t>& tokens) const {
  if (!parts_.words.empty()) {
    const auto found = parts_.words.find(std::string(word));
    if (found != parts_.words.end()) return tokens.push_back(found->second);
  }
  const std::size_t begin = tokens.size();
  const auto add_bytes = [&](std::string_view bytes) {
    for (const char byte : bytes) tokens.push_back(parts_.byte_tokens[static_cast<unsigned char>(byte)]);
  };
  if (parts_.characters.empty()) {
    add_bytes(word);
  } else {
    for (std::size_t at = 0; at < word.size();) {
      const std::string character(word.substr(at, character_at(word, at).bytes));
      const auto found = parts_.characters.find(character);
      if (found == parts_.characters.end()) add_bytes(character);
      if (found != parts_.characters.end()) tokens.push_back(found->second);
      at += character.size();
    }
  }
  const auto own = std::span(tokens).subspan(begin);
  tokens.resize(begin + parts_.merges.merge(own, scratch_of(number_).merge));
}

}  // namespace mn::data

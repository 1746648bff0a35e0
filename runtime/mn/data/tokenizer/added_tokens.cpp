// The rules, some of them odd, are those of the `tokenizers` library: a token that is rejected as not a single word
// hides the shorter tokens at its position, and the blanks that a token takes may begin another token.
#include <mn/data/tokenizer/added_tokens.hpp>

#include <algorithm>

#include <mn/data/tokenizer/unicode.hpp>

namespace mn::data {
namespace {

/// The last character before offset `at`.
std::size_t begin_of_last(std::string_view text, std::size_t at) {
  std::size_t begin = at - 1;
  while (begin > 0 && at - begin < 4 && (static_cast<unsigned char>(text[begin]) & 0xC0) == 0x80) --begin;
  return begin;
}

std::size_t blanks_before(std::string_view text, std::size_t at) {
  while (at > 0) {
    const std::size_t begin = begin_of_last(text, at);
    if (character_at(text, begin).category != kSpace) break;
    at = begin;
  }
  return at;
}

std::size_t blanks_after(std::string_view text, std::size_t at) {
  while (character_at(text, at).category == kSpace) at += character_at(text, at).bytes;
  return at;
}

bool is_single_word(std::string_view text, std::size_t begin, std::size_t end) {
  const bool follows = begin > 0 && (character_at(text, begin_of_last(text, begin)).category & kWord) != 0;
  return !follows && (character_at(text, end).category & kWord) == 0;
}

}  // namespace

AddedTokens::AddedTokens(std::vector<AddedToken> tokens) : tokens_(std::move(tokens)) {
  std::ranges::sort(tokens_, {}, &AddedToken::content);
  for (const AddedToken& token : tokens_) begins_[static_cast<unsigned char>(token.content.front())] = true;
}

/// The range of tokens that begin like the text shrinks byte by byte.
const AddedToken* AddedTokens::longest_at(std::string_view text) const {
  const AddedToken* longest = nullptr;
  auto first = tokens_.begin(), last = tokens_.end();
  for (std::size_t i = 0; i < text.size() && first != last; ++i) {
    const auto byte_of = [i](const AddedToken& token) {
      return i < token.content.size() ? int{static_cast<unsigned char>(token.content[i])} : -1;
    };
    const int byte = static_cast<unsigned char>(text[i]);
    first = std::partition_point(first, last, [&](const AddedToken& token) { return byte_of(token) < byte; });
    last = std::partition_point(first, last, [&](const AddedToken& token) { return byte_of(token) == byte; });
    if (first != last && first->content.size() == i + 1) longest = &*first;
  }
  return longest;
}

std::vector<TextPart> AddedTokens::split(std::string_view text) const {
  if (tokens_.empty()) return {{text}};
  std::vector<TextPart> parts;
  std::size_t begin = 0;  // of the text after the last token
  for (std::size_t at = 0; at < text.size();) {
    const AddedToken* found = begins_[static_cast<unsigned char>(text[at])] ? longest_at(text.substr(at)) : nullptr;
    if (found == nullptr) {
      ++at;
      continue;
    }
    const std::size_t end = at + found->content.size();
    if (!found->single_word || is_single_word(text, at, end)) {
      const std::size_t first = found->takes_left ? std::max(begin, blanks_before(text, at)) : at;
      if (begin < first) parts.push_back({text.substr(begin, first - begin)});
      parts.push_back({{}, found->token});
      begin = found->takes_right ? blanks_after(text, end) : end;
    }
    at = end;
  }
  if (begin != text.size()) parts.push_back({text.substr(begin)});
  return parts;
}

}  // namespace mn::data

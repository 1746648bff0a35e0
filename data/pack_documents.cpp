#include "data/pack_documents.hpp"

#include <algorithm>

namespace mn::data {
namespace {

constexpr std::size_t kMaxTokens = 1 << 22;  // in memory

}  // namespace

void DocumentPacker::add(std::span<const std::int32_t> tokens, std::span<const std::uint8_t> is_prompt) {
  // A document of one token has nothing to predict.
  for (std::size_t begin = 0; begin + 1 < tokens.size(); begin += length_ - 1) {
    const std::size_t count = std::min(length_, tokens.size() - begin);
    add_part(tokens.subspan(begin, count), is_prompt.empty() ? is_prompt : is_prompt.subspan(begin, count));
  }
}

void DocumentPacker::add_part(std::span<const std::int32_t> tokens, std::span<const std::uint8_t> is_prompt) {
  Sample& sample = sample_for(tokens.size());
  const std::int32_t number = ++sample.count;
  for (std::size_t i = 0; i < tokens.size(); ++i) {
    const bool is_predicted = i > 0 && (is_prompt.empty() || is_prompt[i] == 0);
    sample.tokens.push_back(tokens[i]);
    sample.documents.push_back(is_predicted ? number : -number);
  }
}

DocumentPacker::Sample& DocumentPacker::sample_for(std::size_t tokens) {
  const auto best = by_room_.lower_bound(tokens);
  std::size_t index = samples_.size();
  std::size_t room = length_;
  if (best != by_room_.end()) {
    room = best->first;
    index = best->second;
    by_room_.erase(best);
  } else {
    if (samples_.size() * length_ >= kMaxTokens) {
      flush();
      index = 0;
    }
    samples_.emplace_back();
  }
  if (room > tokens + 1) by_room_.emplace(room - tokens, index);  // a document has at least two tokens
  return samples_[index];
}

void DocumentPacker::flush() {
  for (Sample& sample : samples_) {
    sample.tokens.resize(length_);
    sample.documents.resize(length_);
    tokens_.add(sample.tokens);
    documents_.add(sample.documents);
  }
  samples_.clear();
  by_room_.clear();
}

}  // namespace mn::data

/// A thread's cache of encoded words.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <cstring>
#include <span>
#include <string_view>
#include <vector>

namespace mn::data {

/// Each word has one possible slot; a later word takes the slot from an earlier one. Long words are not kept.
class WordCache {
 public:
  static constexpr std::size_t kMaxBytes = 24, kMaxTokens = 8;
  struct Slot {
    std::array<char, kMaxBytes> word{};
    std::array<std::int32_t, kMaxTokens> tokens{};
    std::uint32_t tokenizer = 0;
    std::uint8_t bytes = 0;  ///< 0: the slot is free
    std::uint8_t count = 0;
  };

  /// The words that are looked up and kept are those of `tokenizer`. Slots keep the words of other tokenizers, because
  /// to clear the slots takes longer than to read a small tokenizer.
  void use_for(std::uint32_t tokenizer) { tokenizer_ = tokenizer; }
  /// The slot of a word of 1 to kMaxBytes bytes.
  [[nodiscard]] Slot& slot_of(std::string_view word) {
    std::array<std::uint64_t, kMaxBytes / 8> parts{};
    std::memcpy(parts.data(), word.data(), word.size());
    std::uint64_t hash = word.size();
    for (const std::uint64_t part : parts) {
      hash = (hash ^ part) * 0x9E3779B97F4A7C15U;
      hash ^= hash >> 29;
    }
    return slots_[hash % kSlots];
  }
  [[nodiscard]] bool holds(const Slot& slot, std::string_view word) const {
    return slot.bytes == word.size() && slot.tokenizer == tokenizer_ &&
           std::memcmp(slot.word.data(), word.data(), word.size()) == 0;
  }
  void keep(Slot& slot, std::string_view word, std::span<const std::int32_t> tokens) const {
    if (tokens.size() > kMaxTokens) return;
    std::ranges::copy(word, slot.word.begin());
    std::ranges::copy(tokens, slot.tokens.begin());
    slot.tokenizer = tokenizer_;
    slot.bytes = static_cast<std::uint8_t>(word.size());
    slot.count = static_cast<std::uint8_t>(tokens.size());
  }

 private:
  static constexpr std::size_t kSlots = std::size_t{1} << 16;
  std::vector<Slot> slots_ = std::vector<Slot>(kSlots);
  std::uint32_t tokenizer_ = 0;
};

}  // namespace mn::data

/// Byte pair encoding of one word: the pair with the lowest rank is merged first and, of equal pairs, the leftmost.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace mn::data {

/// The merges of a tokenizer: an open hash table from a pair of tokens to a rank and the merged token.
class BytePairs {
 public:
  /// Memory that merge() reuses from word to word.
  struct Scratch {
    struct Symbol {
      std::int32_t token;
      std::int32_t rank;  // of the merge with the next symbol; kNone: no merge, or the symbol was merged
      std::uint32_t previous, next;
    };
    std::vector<Symbol> symbols;
    std::vector<std::uint64_t> queue;  // a heap of rank << 32 | index of a symbol
  };

  /// Merges the pair to `token`. A repeated pair replaces the earlier one. Returns whether the pair is new.
  bool add(std::int32_t first, std::int32_t second, std::int32_t rank, std::int32_t token);
  /// Merges tokens of a word until no merge is left. Returns the number of the remaining tokens, which come first.
  std::size_t merge(std::span<std::int32_t> tokens, Scratch& scratch) const;

 private:
  static constexpr std::int32_t kNone = -1;
  struct Rule {
    std::uint64_t pair = 0;
    std::int32_t rank = kNone;
    std::int32_t token = 0;
  };
  [[nodiscard]] const Rule& find(std::int32_t first, std::int32_t second) const;
  void grow();
  void rank(Scratch& scratch, std::uint32_t index) const;

  std::vector<Rule> rules_;  // [a power of two] at most half full
  std::size_t size_ = 0;
};

}  // namespace mn::data

// Cost of a word of n tokens: O(n log n), with a heap of the possible merges, so a text without blanks is no worse than
// another text.
//
// (1) A symbol's `rank` is that of its merge with the next symbol, and the queue has an entry with this rank.
// (2) An entry whose rank is no longer the symbol's is skipped: a neighbor was merged meanwhile.
#include <mn/data/tokenizer/byte_pairs.hpp>

#include <algorithm>
#include <functional>

namespace mn::data {
namespace {

constexpr std::uint32_t kNoSymbol = 0xFFFFFFFF;

std::uint64_t pair_key(std::int32_t first, std::int32_t second) {
  return std::uint64_t{static_cast<std::uint32_t>(first)} << 32 | static_cast<std::uint32_t>(second);
}

std::size_t slot_of(std::uint64_t pair, std::size_t slots) {
  std::uint64_t hash = pair * 0x9E3779B97F4A7C15U;
  hash ^= hash >> 32;
  return static_cast<std::size_t>(hash * 0x9E3779B97F4A7C15U >> 24) & (slots - 1);
}

}  // namespace

bool BytePairs::add(std::int32_t first, std::int32_t second, std::int32_t rank, std::int32_t token) {
  if (2 * (size_ + 1) > rules_.size()) grow();
  const std::uint64_t pair = pair_key(first, second);
  std::size_t slot = slot_of(pair, rules_.size());
  while (rules_[slot].rank != kNone && rules_[slot].pair != pair) slot = (slot + 1) & (rules_.size() - 1);
  const bool is_new = rules_[slot].rank == kNone;
  if (is_new) ++size_;
  rules_[slot] = {pair, rank, token};
  return is_new;
}

void BytePairs::grow() {
  std::vector<Rule> old(std::max<std::size_t>(1024, 2 * rules_.size()));
  old.swap(rules_);
  size_ = 0;
  for (const Rule& rule : old) {
    if (rule.rank == kNone) continue;
    add(static_cast<std::int32_t>(rule.pair >> 32), static_cast<std::int32_t>(rule.pair & 0xFFFFFFFF), rule.rank,
        rule.token);
  }
}

/// Returns a rule without a rank if the pair is not merged.
const BytePairs::Rule& BytePairs::find(std::int32_t first, std::int32_t second) const {
  const std::uint64_t pair = pair_key(first, second);
  std::size_t slot = slot_of(pair, rules_.size());
  while (rules_[slot].rank != kNone && rules_[slot].pair != pair) slot = (slot + 1) & (rules_.size() - 1);
  return rules_[slot];
}

/// Keeps (1) after the symbol or the next one has changed.
void BytePairs::rank(Scratch& scratch, std::uint32_t index) const {
  Scratch::Symbol& symbol = scratch.symbols[index];
  symbol.rank = symbol.next == kNoSymbol ? kNone : find(symbol.token, scratch.symbols[symbol.next].token).rank;
  if (symbol.rank == kNone) return;
  scratch.queue.push_back(std::uint64_t{static_cast<std::uint32_t>(symbol.rank)} << 32 | index);
  std::ranges::push_heap(scratch.queue, std::greater());
}

std::size_t BytePairs::merge(std::span<std::int32_t> tokens, Scratch& scratch) const {
  if (tokens.size() < 2 || rules_.empty()) return tokens.size();
  auto& [symbols, queue] = scratch;
  symbols.clear();
  queue.clear();
  const auto count = static_cast<std::uint32_t>(tokens.size());
  for (std::uint32_t i = 0; i < count; ++i) {
    symbols.push_back({tokens[i], kNone, i == 0 ? kNoSymbol : i - 1, i + 1 == count ? kNoSymbol : i + 1});
  }
  for (std::uint32_t i = 0; i < count; ++i) rank(scratch, i);
  while (!queue.empty()) {
    const std::uint64_t top = queue.front();
    std::ranges::pop_heap(queue, std::greater());
    queue.pop_back();
    Scratch::Symbol& left = symbols[top & 0xFFFFFFFF];
    if (left.rank != static_cast<std::int32_t>(top >> 32)) continue;  // (2)
    Scratch::Symbol& right = symbols[left.next];
    left.token = find(left.token, right.token).token;
    left.next = right.next;
    right.rank = kNone;
    if (left.next != kNoSymbol) symbols[left.next].previous = static_cast<std::uint32_t>(top);
    rank(scratch, static_cast<std::uint32_t>(top));
    if (left.previous != kNoSymbol) rank(scratch, left.previous);
  }
  std::size_t to = 0;
  for (std::uint32_t i = 0; i != kNoSymbol; i = symbols[i].next) tokens[to++] = symbols[i].token;
  return to;
}

}  // namespace mn::data

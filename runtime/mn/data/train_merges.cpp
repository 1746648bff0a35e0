// Trains byte pair encoding (Gage 1994; Sennrich et al. 2016, arXiv:1508.07909).
//
// Each round merges the pair of tokens that is most frequent in all words; if several pairs are equally frequent, it
// merges the pair with the smallest tokens.
//
// (1) pairs_ holds every pair in the words, with its weight (its count over all words) and a list of the words with the
//     pair. The list may also name words that no longer have the pair. A merge looks only at the listed words.
// (2) A pair gains weight only in the round that makes the later of its two tokens; later rounds only lower the weight.
//     So queue_ has one entry for each pair that was not dropped, and the entry's weight is at least the pair's weight.
//     If the weight of the top entry is too high, best() corrects it.
//
// Memory: about 20 times the words' bytes. Time: proportional to the number of tokens that merges change.
#include <mn/data/vocabulary.hpp>

#include <cassert>
#include <queue>

namespace mn {
namespace {

using Merge = Vocabulary::Merge;

struct MergeHash {
  std::size_t operator()(const Merge& merge) const noexcept {
    const auto both = static_cast<std::uint64_t>(merge.first) << 32 | static_cast<std::uint32_t>(merge.second);
    return both * 0x9E3779B97F4A7C15U >> 20;
  }
};

constexpr std::int32_t kFirstMerged = 256;
constexpr std::size_t kLongest = 256;  // longest text of a token in bytes, as in Vocabulary::of_merges()

class PairCounts {
 public:
  explicit PairCounts(const std::map<std::string, std::int64_t>& words) {
    for (const auto& [text, weight] : words) {
      Word word{.tokens = {}, .weight = weight};
      for (const char byte : text) word.tokens.push_back(static_cast<unsigned char>(byte));
      for (std::size_t k = 0; k + 1 < word.tokens.size(); ++k) {
        gain({word.tokens[k], word.tokens[k + 1]}, weight, words_.size());
      }
      words_.push_back(std::move(word));
    }
    enqueue_new();
  }

  /// Returns the weight of the pair to merge next (0: no pair remains), and the pair.
  [[nodiscard]] std::pair<std::int64_t, Merge> best() {
    while (!queue_.empty()) {
      const Entry top = queue_.top();
      const auto found = pairs_.find(top.pair);
      assert(found != pairs_.end() && found->second.weight <= top.weight);  // the queue's weight is at least the pair's
      if (found->second.weight == top.weight) return {top.weight, top.pair};
      queue_.pop();
      if (found->second.weight > 0) {
        queue_.push({found->second.weight, top.pair});
      } else {
        pairs_.erase(found);
      }
    }
    return {0, {}};
  }

  void merge(Merge pair, std::int32_t token) {
    const auto merged = pairs_.extract(pair);
    queue_.pop();
    for (const std::size_t i : merged.mapped().words) merge_in(i, pair, token);
    enqueue_new();
  }

  /// Excludes the pair that best() returned last.
  void drop() { queue_.pop(); }

 private:
  struct Word {
    std::vector<std::int32_t> tokens;
    std::int64_t weight;
  };
  struct PairUse {
    std::int64_t weight = 0;
    std::vector<std::size_t> words;
  };
  struct Entry {
    std::int64_t weight;
    Merge pair;
    /// The heaviest pair is on top and, of equally heavy pairs, the smallest.
    bool operator<(const Entry& other) const {
      return weight != other.weight ? weight < other.weight : pair > other.pair;
    }
  };
  void merge_in(std::size_t i, Merge pair, std::int32_t token) {
    auto& [tokens, weight] = words_[i];
    std::size_t to = 0;
    for (std::size_t from = 0; from < tokens.size(); ++to) {
      if (from + 1 == tokens.size() || Merge(tokens[from], tokens[from + 1]) != pair) {
        tokens[to] = tokens[from++];
        continue;
      }
      if (to > 0) {  // the previous token may have been merged in this round
        lose({tokens[to - 1], pair.first}, weight);
        gain({tokens[to - 1], token}, weight, i);
      }
      if (from + 2 < tokens.size()) {
        lose({pair.second, tokens[from + 2]}, weight);
        gain({token, tokens[from + 2]}, weight, i);
      }
      tokens[to] = token;
      from += 2;
    }
    tokens.resize(to);
  }

  void gain(Merge pair, std::int64_t weight, std::size_t word) {
    const auto [found, is_new] = pairs_.try_emplace(pair);
    if (is_new) new_.push_back(pair);
    found->second.weight += weight;
    auto& words = found->second.words;
    if (words.empty() || words.back() != word) words.push_back(word);
  }

  void lose(Merge pair, std::int64_t weight) {
    const auto found = pairs_.find(pair);
    if (found != pairs_.end()) found->second.weight -= weight;  // only the pair being merged is absent from pairs_
  }

  void enqueue_new() {
    for (const Merge& pair : new_) {
      const auto found = pairs_.find(pair);
      if (found->second.weight > 0) {
        queue_.push({found->second.weight, pair});
      } else {
        pairs_.erase(found);
      }
    }
    new_.clear();
  }

  std::vector<Word> words_;
  std::unordered_map<Merge, PairUse, MergeHash> pairs_;
  std::vector<Merge> new_;  // pairs without an entry in the queue
  std::priority_queue<Entry> queue_;
};

}  // namespace

std::vector<Merge> train_merges(const std::map<std::string, std::int64_t>& words, std::int64_t size) {
  PairCounts counts(words);
  std::vector<Merge> merges;
  std::vector<std::size_t> lengths(kFirstMerged, 1);
  while (static_cast<std::int64_t>(lengths.size()) < size) {
    const auto [weight, pair] = counts.best();
    if (weight < 2) break;
    const std::size_t length =
        lengths[static_cast<std::size_t>(pair.first)] + lengths[static_cast<std::size_t>(pair.second)];
    if (length > kLongest) {
      counts.drop();
      continue;
    }
    counts.merge(pair, static_cast<std::int32_t>(lengths.size()));
    merges.push_back(pair);
    lengths.push_back(length);
  }
  return merges;
}

}  // namespace mn

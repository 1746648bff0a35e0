// Byte pair encoding's training (Gage 1994; Sennrich et al. 2016, arXiv:1508.07909).
//
// Each round merges the pair of tokens that occurs most often in all words; of several the one with the least tokens.
// (1) counts_ holds every pair that a word has, with its weight over all words; queue_ the same pairs by weight.
// (2) Only the words that have the merged pair change: places_ names them, and perhaps some that no longer do.
// Cost: the words' bytes in memory, times about 20; time in proportion to what the merges change.
#include <set>
#include <unordered_set>

#include <mn/data/vocabulary.hpp>

namespace mn {
namespace {

using Merge = Vocabulary::Merge;

constexpr std::int32_t kFirstMerged = 256;
constexpr std::size_t kLongest = 256;  // bytes of a token, as Vocabulary::of_merges() takes them

class PairCounts {
 public:
  explicit PairCounts(const std::map<std::string, std::int64_t>& words) {
    for (const auto& [text, weight] : words) {
      Word word{.tokens = {}, .weight = weight};
      for (const char byte : text) word.tokens.push_back(static_cast<unsigned char>(byte));
      words_.push_back(std::move(word));
      count(words_.size() - 1, 1);
    }
  }

  /// The pair to merge next; weight 0 if no pair is left.
  [[nodiscard]] std::pair<std::int64_t, Merge> best() const {
    if (queue_.empty()) return {0, {}};
    return {-queue_.begin()->first, queue_.begin()->second};
  }

  void merge(Merge pair, std::int32_t token) {
    const auto places = places_.extract(pair);
    for (const std::size_t i : places.mapped()) {
      count(i, -1);
      std::vector<std::int32_t>& tokens = words_[i].tokens;
      std::size_t to = 0;
      for (std::size_t from = 0; from < tokens.size(); ++to) {
        const bool here = from + 1 < tokens.size() && Merge(tokens[from], tokens[from + 1]) == pair;
        tokens[to] = here ? token : tokens[from];
        from += here ? 2 : 1;
      }
      tokens.resize(to);
      count(i, 1);
    }
  }

  /// Never merged.
  void drop(Merge pair) {
    queue_.erase({-counts_[pair], pair});
    dropped_.insert(pair);
  }

 private:
  struct Word {
    std::vector<std::int32_t> tokens;
    std::int64_t weight;
  };

  void count(std::size_t i, std::int64_t sign) {
    const Word& word = words_[i];
    for (std::size_t k = 0; k + 1 < word.tokens.size(); ++k) {
      const Merge pair(word.tokens[k], word.tokens[k + 1]);
      std::int64_t& weight = counts_[pair];
      queue_.erase({-weight, pair});
      weight += sign * word.weight;
      if (weight > 0 && !dropped_.contains(pair)) queue_.insert({-weight, pair});
      if (weight == 0) counts_.erase(pair);
      if (sign > 0) places_[pair].insert(i);
    }
  }

  std::vector<Word> words_;
  std::map<Merge, std::int64_t> counts_;
  std::set<std::pair<std::int64_t, Merge>> queue_;  // by −weight
  std::map<Merge, std::unordered_set<std::size_t>> places_;
  std::set<Merge> dropped_;
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
      counts.drop(pair);
      continue;
    }
    counts.merge(pair, static_cast<std::int32_t>(lengths.size()));
    merges.push_back(pair);
    lengths.push_back(length);
  }
  return merges;
}

}  // namespace mn

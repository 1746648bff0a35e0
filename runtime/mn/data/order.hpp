/// The order of an epoch: a pure function position → sample of (seed, epoch), computed for one position at a time.
#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

#include <mn/data/dataset.hpp>

namespace mn::data {

/// A keyed permutation of [0, n): a Feistel network over the next power of two, walked until it lands below n
/// (Black and Rogaway, "Ciphers with arbitrary finite domains", 2002, method 3). No tables, O(1) memory.
class Permutation {
 public:
  Permutation() = default;
  Permutation(std::uint64_t n, std::uint64_t key);
  [[nodiscard]] std::uint64_t operator()(std::uint64_t x) const;

 private:
  static constexpr int kRounds = 6;
  [[nodiscard]] std::uint64_t encrypt(std::uint64_t x) const;

  std::uint64_t n_ = 1;
  int left_bits_ = 0;
  int right_bits_ = 0;
  std::uint64_t round_keys_[kRounds] = {};
};

/// All that an order depends on besides (seed, epoch). A sampler's state holds it.
struct OrderOptions {
  bool shuffle = false;  ///< false: the stored order, whatever the rest says
  bool sticky = false;   ///< a lane gets equal chunks in every epoch, so page caches stay warm
  /// Number of lanes, runs of neighboring samples, from which positions take in turn. One lane in one window is a
  /// shuffle of all samples at once.
  std::int64_t lanes = 1;
  std::int64_t adjacent = 1;  ///< lanes side by side in storage (a chunk); divides `lanes`
  std::int64_t windows = 1;   ///< parts of an epoch; each window has other chunks
  bool mixed = false;         ///< a lane gives its samples in random order, not neighbor after neighbor
  std::int64_t aligned = 1;   ///< walks of chunks begin at multiples of this number of samples
  bool operator==(const OrderOptions&) const = default;
};

/// Datasets up to this size are shuffled in full, since every rank can keep all samples in memory.
inline constexpr std::int64_t kFullShuffleBytes = std::int64_t{128} << 20;
/// Reading samples of this size one by one costs little more than reading neighbors together: lanes of default_order()
/// mix large samples.
inline constexpr std::int64_t kLargeSampleBytes = std::int64_t{32} << 10;
/// default_order(): files that one rank reads from at a time, at most.
inline constexpr std::int64_t kMaxOpenFiles = 640;
/// default_order(): bytes of partly used blocks in memory, at most.
inline constexpr std::int64_t kMaxLiveBytes = std::int64_t{256} << 20;
/// … and indexes of open files.
inline constexpr std::int64_t kMaxIndexBytes = std::int64_t{40} << 20;

/// Upper bound, in bytes, of the blocks that one of `ranks` ranks has in use (never less than one lane's blocks). A
/// cache of 1.5 times this size, or of two blocks of each field, has room for the blocks.
[[nodiscard]] constexpr std::int64_t rank_live_bytes(int ranks) {
  return std::min(kMaxLiveBytes, (std::int64_t{40} << 20) + kMaxLiveBytes / ranks);
}

/// A good order for n samples: a full shuffle of data in memory or of small data, else as many lanes as one rank can
/// read from within the limits above. Packed data with blocks too long for `ranks` ranks to divide the lanes gets a
/// number of lanes that depends on `ranks`.
[[nodiscard]] OrderOptions default_order(std::int64_t n, const StorageLayout& layout, bool shuffle, int ranks = 1);

/// One epoch: a bijection position → sample.
class EpochOrder {
 public:
  EpochOrder(std::int64_t n, const OrderOptions& options, std::uint64_t seed, std::int64_t epoch);
  [[nodiscard]] std::int64_t operator()(std::int64_t position) const;
  [[nodiscard]] std::int64_t lanes() const noexcept { return options_.lanes; }
  /// False: the order is the stored order, or a shuffle of all samples at once.
  [[nodiscard]] bool has_lanes() const noexcept { return !window_firsts_.empty(); }

  /// Positions [first, last) of one window, counted from its beginning.
  struct Stretch {
    std::int64_t window;
    std::int64_t first;
    std::int64_t last;
  };
  /// Positions [first, last) of the epoch, window by window.
  [[nodiscard]] std::vector<Stretch> stretches(std::int64_t first, std::int64_t last) const;

 private:
  friend class OrderWindow;

  /// Neighboring samples, walked cyclically from `phase` on.
  struct Chunk {
    std::int64_t begin;
    std::int64_t length;
    std::int64_t phase;
  };
  [[nodiscard]] std::int64_t chunks_per_window() const noexcept { return options_.lanes / options_.adjacent; }
  [[nodiscard]] Chunk chunk(std::int64_t window, std::int64_t number) const;
  /// Rounds of a window in which every lane gives a sample.
  [[nodiscard]] std::int64_t full_rounds() const noexcept { return chunk_samples_ / options_.adjacent; }

  std::int64_t n_;
  OrderOptions options_;
  std::uint64_t phase_key_ = 0;
  std::uint64_t lane_key_ = 0;
  Permutation permutation_;                       // of chunks; without lanes of samples
  std::int64_t chunk_samples_ = 0;                // of each chunk, but for …
  std::int64_t longer_chunks_ = 0;                // … the first few, which have one sample more
  std::vector<std::int64_t> window_firsts_ = {};  // [windows + 1] in positions; empty without lanes
};

/// One window of an order: the samples of its lanes. In a round each lane gives one sample, lane 0 first; in the last
/// round some lanes may be empty. An order without lanes is a window of one lane.
class OrderWindow {
 public:
  /// `order` must outlive the window.
  OrderWindow(const EpochOrder& order, std::int64_t number);

  /// Rounds [first, last) of one lane.
  struct Rounds {
    std::int64_t first = 0;
    std::int64_t last = 0;
    [[nodiscard]] std::int64_t count() const noexcept { return last - first; }
  };
  /// By lane: the rounds that positions [first, last) of the window take.
  [[nodiscard]] std::vector<Rounds> rounds(std::int64_t first, std::int64_t last) const;
  [[nodiscard]] std::int64_t sample(std::int64_t lane, std::int64_t round) const;
  [[nodiscard]] std::int64_t number() const noexcept { return number_; }

 private:
  [[nodiscard]] std::int64_t lane_length(std::int64_t lane) const;

  const EpochOrder* order_;
  std::int64_t number_;
  std::vector<EpochOrder::Chunk> chunks_;
};

}  // namespace mn::data

/// The order of an epoch: which sample each position of the epoch gets. The sample is a pure function of position, seed
/// and epoch, and computed for one position at a time. order.cpp explains the terms chunk, window, lane and round.
#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

#include <mn/data/dataset.hpp>

namespace mn::data {

/// A keyed permutation of [0, n): a Feistel network permutes the numbers below the next power of two, and is applied
/// until the result is below n (Black and Rogaway, "Ciphers with arbitrary finite domains", 2002, method 3). No tables,
/// O(1) memory.
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

/// All that an order depends on besides number of samples, seed and epoch. A sampler's state holds the OrderOptions.
struct OrderOptions {
  bool shuffle = false;  ///< false: the stored order, for any values of the other options
  bool sticky = false;   ///< a lane gets the same chunks in every epoch, so page caches stay warm
  /// Number of lanes. A lane is a run of neighboring samples; consecutive positions take one sample from each lane in
  /// turn. One lane in one window is a shuffle of all samples at once.
  std::int64_t lanes = 1;
  std::int64_t adjacent = 1;  ///< lanes of a chunk, which lie side by side in storage; divides `lanes`
  std::int64_t windows = 1;   ///< parts of an epoch; a window reads its own chunks
  bool mixed = false;         ///< a lane gives its samples in random order, not neighbor after neighbor
  std::int64_t aligned = 1;   ///< the walk through a chunk begins at a multiple of this number of samples
  bool operator==(const OrderOptions&) const = default;
};

/// Datasets up to this size are shuffled in full, since every rank can keep all samples in memory.
inline constexpr std::int64_t kFullShuffleBytes = std::int64_t{128} << 20;
/// Reading samples of this size one by one costs little more than reading neighbors together. So default_order() sets
/// `mixed` for large samples.
inline constexpr std::int64_t kLargeSampleBytes = std::int64_t{32} << 10;
/// Limit of default_order(): number of files from which a rank reads at a time.
inline constexpr std::int64_t kMaxOpenFiles = 640;
/// Limit of default_order(): bytes of partly used blocks in memory.
inline constexpr std::int64_t kMaxLiveBytes = std::int64_t{256} << 20;
/// Limit of default_order(): bytes of the indexes of open files in memory.
inline constexpr std::int64_t kMaxIndexBytes = std::int64_t{40} << 20;

/// Upper bound, in bytes, of the blocks that one of `ranks` ranks has in use (never less than one lane's blocks). A
/// cache of 1.5 times this size, or of two blocks of each field, has room for the blocks.
[[nodiscard]] constexpr std::int64_t rank_live_bytes(int ranks) {
  return std::min(kMaxLiveBytes, (std::int64_t{40} << 20) + kMaxLiveBytes / ranks);
}

/// A good order for n samples. Data in memory and small data get a full shuffle; other data get as many lanes as one
/// rank can read from within the limits above. If blocks of packed data are so long that `ranks` ranks can't divide the
/// lanes well, the number of lanes depends on `ranks`.
[[nodiscard]] OrderOptions default_order(std::int64_t n, const StorageLayout& layout, bool shuffle, int ranks = 1);

/// One epoch: a bijection position → sample.
class EpochOrder {
 public:
  EpochOrder(std::int64_t n, const OrderOptions& options, std::uint64_t seed, std::int64_t epoch);
  [[nodiscard]] std::int64_t operator()(std::int64_t position) const;
  [[nodiscard]] std::int64_t lanes() const noexcept { return options_.lanes; }
  /// False if the order is the stored order or a shuffle of all samples at once.
  [[nodiscard]] bool has_lanes() const noexcept { return !window_firsts_.empty(); }

  /// Positions [first, last) of one window, counted from the window's beginning.
  struct Stretch {
    std::int64_t window;
    std::int64_t first;
    std::int64_t last;
  };
  /// Divides positions [first, last) of the epoch into a Stretch for each window.
  [[nodiscard]] std::vector<Stretch> stretches(std::int64_t first, std::int64_t last) const;

 private:
  friend class OrderWindow;

  /// A run of neighboring samples. The walk begins `phase` samples after `begin`, and goes on at `begin` after the last
  /// sample.
  struct Chunk {
    std::int64_t begin;
    std::int64_t length;
    std::int64_t phase;
  };
  [[nodiscard]] std::int64_t chunks_per_window() const noexcept { return options_.lanes / options_.adjacent; }
  [[nodiscard]] Chunk chunk(std::int64_t window, std::int64_t number) const;
  /// Number of rounds of a window in which every lane gives a sample.
  [[nodiscard]] std::int64_t full_rounds() const noexcept { return chunk_samples_ / options_.adjacent; }

  std::int64_t n_;
  OrderOptions options_;
  std::uint64_t phase_key_ = 0;
  std::uint64_t lane_key_ = 0;
  Permutation permutation_;         // of chunks; of samples if the order has no lanes
  std::int64_t chunk_samples_ = 0;  // samples of a chunk; see longer_chunks_
  std::int64_t longer_chunks_ = 0;  // the first longer_chunks_ chunks have one sample more
  // [windows + 1] first position of each window; empty if the order has no lanes
  std::vector<std::int64_t> window_firsts_ = {};
};

/// One window of an order, with the samples of its lanes. In a round each lane gives one sample, lane 0 first; in the
/// last round some lanes may be empty. An order without lanes counts as one window of one lane.
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
  /// [lanes] the rounds of each lane that positions [first, last) of the window take.
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

/// The order of an epoch: the sample at a position is a function of position, seed and epoch, so no table of all
/// positions is made. order.cpp explains the terms chunk, window, lane and round.
#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

#include <mn/data/dataset.hpp>

namespace mn::data {

/// A keyed permutation of [0, n), without a table: a Feistel network permutes the numbers below a power of two ≥ n, and
/// is applied again until the result is below n (Black and Rogaway, "Ciphers with arbitrary finite domains", 2002,
/// method 3).
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

/// The number of samples, the seed, the epoch and these options determine an order. States of samplers hold the
/// options.
struct OrderOptions {
  bool shuffle = false;  ///< false: the stored order; the other options are ignored
  /// A lane is a run of neighboring samples; consecutive positions take one sample from each lane in turn. With 1 lane
  /// and 1 window, the order is a shuffle of all samples at once.
  std::int64_t lanes = 1;
  std::int64_t adjacent = 1;  ///< lanes cut from one chunk, a run of samples; divides `lanes`
  std::int64_t windows = 1;   ///< parts of an epoch, each with its own chunks
  bool mixed = false;         ///< a lane's samples are taken in random order, not in stored order
  std::int64_t aligned = 1;   ///< the reading of a chunk begins at a multiple of this number of samples
  bool operator==(const OrderOptions&) const = default;
};

/// Up to this size, default_order() shuffles all samples at once, because every rank can keep them in memory.
inline constexpr std::int64_t kFullShuffleBytes = std::int64_t{128} << 20;
/// Reading samples of this size one by one costs little more than reading neighbors together, so they are `mixed`.
inline constexpr std::int64_t kLargeSampleBytes = std::int64_t{32} << 10;
/// Limit of default_order() for the files from which a rank reads at a time.
inline constexpr std::int64_t kMaxOpenFiles = 640;
/// Limit of default_order() for the bytes of blocks that a rank keeps in memory for samples still to be used.
inline constexpr std::int64_t kMaxLiveBytes = std::int64_t{256} << 20;
/// Limit of default_order() for the bytes of the indexes of open files.
inline constexpr std::int64_t kMaxIndexBytes = std::int64_t{40} << 20;

/// Limit, in bytes, for the blocks that one of `ranks` ranks has in use at a time. An order with the fewest lanes may
/// exceed it if blocks are very large. A cache is large enough for the blocks in use if it has 1.5 times this size, or
/// room for two blocks of each field.
[[nodiscard]] constexpr std::int64_t rank_live_bytes(int ranks) {
  return std::min(kMaxLiveBytes, (std::int64_t{40} << 20) + kMaxLiveBytes / ranks);
}

/// Chooses a good order for n samples. Data in memory and small data get a full shuffle; other data get as many lanes
/// as the limits above permit a rank to read from. The number of lanes depends on `ranks` only if blocks of packed data
/// are so long that `ranks` ranks can't divide the lanes well.
[[nodiscard]] OrderOptions default_order(std::int64_t n, const StorageLayout& layout, bool shuffle, int ranks = 1);

/// The order of one epoch: gives each position a sample, and each sample exactly one position.
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
  /// Divides positions [first, last) of the epoch between windows.
  [[nodiscard]] std::vector<Stretch> stretches(std::int64_t first, std::int64_t last) const;

 private:
  friend class OrderWindow;

  /// Reading begins `phase` samples after `begin`, goes on to the chunk's end, and continues at `begin`.
  struct Chunk {
    std::int64_t begin;
    std::int64_t length;
    std::int64_t phase;
  };
  [[nodiscard]] std::int64_t chunks_per_window() const noexcept { return options_.lanes / options_.adjacent; }
  [[nodiscard]] Chunk chunk(std::int64_t window, std::int64_t number) const;
  /// Rounds of a window in which every lane has a sample.
  [[nodiscard]] std::int64_t full_rounds() const noexcept { return chunk_samples_ / options_.adjacent; }

  std::int64_t n_;
  OrderOptions options_;
  std::uint64_t phase_key_ = 0;
  std::uint64_t lane_key_ = 0;
  Permutation permutation_;         // permutes chunks, or samples if the order has no lanes
  std::int64_t chunk_samples_ = 0;  // samples of a chunk, unless longer_chunks_ adds one
  std::int64_t longer_chunks_ = 0;  // how many chunks, the first ones, have one sample more
  // [windows + 1] first position of each window, then n; empty if the order has no lanes
  std::vector<std::int64_t> window_firsts_ = {};
};

/// One window of an order: tells which sample each lane gives in each round. In the last round some lanes may have no
/// sample left. An order without lanes counts as one window of one lane.
class OrderWindow {
 public:
  /// `order` must outlive the window.
  OrderWindow(const EpochOrder& order, std::int64_t number);

  struct Rounds {
    std::int64_t first = 0;
    std::int64_t last = 0;
    [[nodiscard]] std::int64_t count() const noexcept { return last - first; }
  };
  /// For each lane, the rounds in which the lane's sample has a position in [first, last) of the window.
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

/// The order of an epoch: a pure function position → sample of (seed, epoch), computed for one position at a time.
#pragma once

#include <cstdint>

namespace mn::data {

/// A keyed permutation of [0, n): a Feistel network over the next power of two, walked until it lands below n
/// (Black and Rogaway, "Ciphers with arbitrary finite domains", 2002, method 3). No tables, O(1) memory.
class Permutation {
 public:
  Permutation() = default;
  Permutation(std::uint64_t n, std::uint64_t key);
  [[nodiscard]] std::uint64_t operator()(std::uint64_t x) const;
  [[nodiscard]] std::uint64_t inverse(std::uint64_t y) const;

 private:
  static constexpr int kRounds = 6;
  [[nodiscard]] std::uint64_t encrypt(std::uint64_t x) const;
  [[nodiscard]] std::uint64_t decrypt(std::uint64_t y) const;

  std::uint64_t n_ = 1;
  int left_bits_ = 0;
  int right_bits_ = 0;
  std::uint64_t round_keys_[kRounds] = {};
};

/// A permutation of [0, n) that keeps neighbors near each other: whole blocks of `block` indices are permuted, then
/// positions within windows of `window` blocks. block 1 is a full shuffle.
class BlockShuffle {
 public:
  BlockShuffle() = default;
  BlockShuffle(std::int64_t n, std::int64_t block, std::int64_t window, std::uint64_t key);
  [[nodiscard]] std::int64_t operator()(std::int64_t position) const;

 private:
  std::int64_t n_ = 1;
  std::int64_t block_ = 1;
  std::int64_t window_samples_ = 1;
  std::uint64_t key_ = 0;
  Permutation blocks_;
  std::int64_t short_at_ = 0;    // position, in blocks, of the one block that may be short
  std::int64_t short_size_ = 1;  // its length
};

/// How an order is made; with (seed, epoch) it is all that the order depends on. Stored with a sampler's state.
struct OrderOptions {
  bool shuffle = false;
  bool sticky = false;      ///< a lane keeps its samples from epoch to epoch: page caches stay warm
  std::int64_t block = 1;   ///< samples that lie side by side in a shard and stay together
  std::int64_t window = 1;  ///< blocks among which a lane draws its next sample
  /// A power of two; where the number of ranks divides it, each rank owns lanes and reads only their shards.
  std::int64_t lanes = 1;
  bool operator==(const OrderOptions&) const = default;
};

/// A good order for n samples of `total_bytes`: a full shuffle where every rank can hold it in memory, else blocks and
/// lanes.
[[nodiscard]] OrderOptions default_order(std::int64_t n, std::int64_t total_bytes, bool shuffle);

/// One epoch: a bijection position → sample. Position p lies in lane p mod lanes; a lane is a piece of the shuffled
/// stream.
class EpochOrder {
 public:
  EpochOrder(std::int64_t n, const OrderOptions& options, std::uint64_t seed, std::int64_t epoch);
  [[nodiscard]] std::int64_t operator()(std::int64_t position) const;

 private:
  [[nodiscard]] std::int64_t lane_first(std::int64_t lane) const;

  std::int64_t n_;
  OrderOptions options_;
  std::uint64_t epoch_key_;
  BlockShuffle stream_;
};

}  // namespace mn::data

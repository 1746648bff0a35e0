// Orders computed for one position at a time, so that no rank stores or sends a permutation.
//
// Permutation: a Feistel network over the next power of two ≥ 4; its output is encrypted again until it lands below n
// (cycle walking). BlockShuffle: permutes blocks, then positions within windows of blocks. EpochOrder: cuts the
// shuffled stream into lanes and interleaves them.
//
// (1) Each of the three is a bijection, for every n: rounds of a Feistel network are invertible whatever the round
//     function, cycle walking restricts a bijection to [0, n), and lanes differ by at most one sample, the longer ones
//     first.
// (2) Each is a function of (n, options, key) alone: not of ranks, batch size, thread or time.
// (3) Keys for different purposes are unrelated (enum Purpose), so no two permutations of an epoch are.
// (4) At most one block is short, wherever the permutation puts it (short_at_).
//
// Cost: a position takes two or three permutations of six rounds each; the domain is at most 2 · n, so cycle walking
// takes at most 2 tries on average. Memory is O(1).
// Source: Black and Rogaway, "Ciphers with arbitrary finite domains", CT-RSA 2002, method 3.
#include <algorithm>
#include <bit>

#include <mn/core/random.hpp>
#include <mn/data/order.hpp>
#include <mn/data/shard_format.hpp>

namespace mn::data {
namespace {

std::uint64_t mix(std::uint64_t x) { return SplitMix64(x).next(); }

std::uint64_t mix(std::uint64_t a, std::uint64_t b) { return mix(mix(a) ^ b); }

std::uint64_t low_bits(int bits) { return (std::uint64_t{1} << bits) - 1; }

// Which permutation a key belongs to, so that no two of them are related.
enum Purpose : std::uint64_t { kStream = 1, kBlocks, kWindow, kLane, kFixedStream };

constexpr std::int64_t kSmallBytes = std::int64_t{128} << 20;  // read whole by every rank without harm
constexpr std::int64_t kWindowBlocks = 16;
constexpr std::int64_t kMostLanes = 1024;
constexpr std::int64_t kLaneSamples = kBlockSamples * kWindowBlocks;

}  // namespace

Permutation::Permutation(std::uint64_t n, std::uint64_t key) : n_(n) {
  const int bits = std::max(2, static_cast<int>(std::bit_width(n - 1)));
  left_bits_ = bits / 2;
  right_bits_ = bits - left_bits_;
  for (int round = 0; round < kRounds; ++round) round_keys_[round] = mix(key, round);
}

// The halves may differ by a bit: even rounds change the left one, odd rounds the right one, neither swaps.
std::uint64_t Permutation::encrypt(std::uint64_t x) const {
  std::uint64_t left = x >> right_bits_;
  std::uint64_t right = x & low_bits(right_bits_);
  for (int round = 0; round < kRounds; round += 2) {
    left ^= mix(right ^ round_keys_[round]) & low_bits(left_bits_);
    right ^= mix(left ^ round_keys_[round + 1]) & low_bits(right_bits_);
  }
  return left << right_bits_ | right;
}

std::uint64_t Permutation::decrypt(std::uint64_t y) const {
  std::uint64_t left = y >> right_bits_;
  std::uint64_t right = y & low_bits(right_bits_);
  for (int round = kRounds - 2; round >= 0; round -= 2) {
    right ^= mix(left ^ round_keys_[round + 1]) & low_bits(right_bits_);
    left ^= mix(right ^ round_keys_[round]) & low_bits(left_bits_);
  }
  return left << right_bits_ | right;
}

std::uint64_t Permutation::operator()(std::uint64_t x) const {
  if (n_ <= 1) return x;
  do x = encrypt(x);
  while (x >= n_);
  return x;
}

std::uint64_t Permutation::inverse(std::uint64_t y) const {
  if (n_ <= 1) return y;
  do y = decrypt(y);
  while (y >= n_);
  return y;
}

BlockShuffle::BlockShuffle(std::int64_t n, std::int64_t block, std::int64_t window, std::uint64_t key)
    : n_(n), block_(block), window_samples_(block > 1 ? block * window : 1), key_(key) {
  const std::int64_t blocks = (n + block - 1) / block;
  blocks_ = Permutation(blocks, mix(key, kBlocks));
  short_at_ = blocks == 0 ? 0 : static_cast<std::int64_t>(blocks_.inverse(blocks - 1));
  short_size_ = n - (blocks - 1) * block;
}

std::int64_t BlockShuffle::operator()(std::int64_t position) const {
  if (window_samples_ > 1) {
    const std::int64_t first = position / window_samples_ * window_samples_;
    const std::int64_t length = std::min(window_samples_, n_ - first);
    const Permutation within(length, mix(mix(key_, kWindow), first));
    position = first + static_cast<std::int64_t>(within(position - first));
  }
  // Blocks follow each other in permuted order; one of them, at short_at_, may be short.
  const std::int64_t short_first = short_at_ * block_;
  std::int64_t at = position / block_;
  std::int64_t offset = position % block_;
  if (position >= short_first + short_size_) {
    const std::int64_t behind = position - short_first - short_size_;
    at = short_at_ + 1 + behind / block_;
    offset = behind % block_;
  }
  return static_cast<std::int64_t>(blocks_(at)) * block_ + offset;
}

OrderOptions default_order(std::int64_t n, std::int64_t total_bytes, bool shuffle) {
  if (!shuffle) return {};
  if (total_bytes <= kSmallBytes) return {.shuffle = true};
  const auto wanted = static_cast<std::uint64_t>(std::clamp<std::int64_t>(n / kLaneSamples, 1, kMostLanes));
  return {.shuffle = true,
          .block = kBlockSamples,
          .window = kWindowBlocks,
          .lanes = static_cast<std::int64_t>(std::bit_floor(wanted))};
}

EpochOrder::EpochOrder(std::int64_t n, const OrderOptions& options, std::uint64_t seed, std::int64_t epoch)
    : n_(n), options_(options), epoch_key_(mix(seed, static_cast<std::uint64_t>(epoch))) {
  const std::uint64_t key = options.sticky ? mix(seed, kFixedStream) : mix(epoch_key_, kStream);
  if (options.shuffle) stream_ = BlockShuffle(n, options.block, options.window, key);
}

std::int64_t EpochOrder::lane_first(std::int64_t lane) const {
  return lane * (n_ / options_.lanes) + std::min(lane, n_ % options_.lanes);
}

std::int64_t EpochOrder::operator()(std::int64_t position) const {
  if (!options_.shuffle) return position;
  const std::int64_t lane = position % options_.lanes;
  std::int64_t at = position / options_.lanes;
  const std::int64_t first = lane_first(lane);
  if (options_.sticky) {
    const std::int64_t length = lane_first(lane + 1) - first;
    at = BlockShuffle(length, options_.block, options_.window, mix(mix(epoch_key_, kLane), lane))(at);
  }
  return stream_(first + at);
}

}  // namespace mn::data

// Computes an order position by position, so no rank stores or sends a permutation.
//
// If data are larger than memory, a shuffle of all samples has to read a block of a file for every sample. An order
// with lanes reads neighboring samples one after another, yet mixes samples from many random parts of the dataset.
// Terms:
//
//   chunk    a run of neighboring samples. The dataset is cut into windows × lanes / adjacent equal chunks (± 1).
//   window   a part of the epoch. It has lanes / adjacent random chunks, each cut into `adjacent` equal lanes (± 1).
//   lane     a run of neighboring samples. In each round it gives one sample: the next or, for large samples, a random
//            one (`mixed`).
//   round    one sample of each lane, lane 0 first
//
// Neighboring lanes of a window lie in different chunks: with V = lanes / adjacent, lane i is part i div V of the
// window's chunk i mod V. In each epoch, the reading of a chunk begins at another random sample (the phase), goes on to
// the chunk's end, and continues at the chunk's beginning. The first sample read is a multiple of `aligned`. If
// `aligned` is the number of samples in a block, reading so begins at the beginning of a block.
//
// Blocks of packed data may be so long that R ranks would have to share lanes. Then there are R times as many lanes as
// one rank has room for, and an epoch reads about one block twice for each lane of each window.
//
// (1) An order is a bijection, for every n and all options: chunks and lanes cut [0, n) without gap or overlap, every
//     lane gives each of its samples once, and the permutations of samples or chunks are bijections (Permutation).
// (2) An order is a function of n, options, seed and epoch alone: not of ranks, batch size, thread or time.
// (3) The lengths of a window's lanes differ by at most one sample, so only the window's last round may be incomplete.
// (4) Permutations for different purposes have unrelated keys (enum Purpose).
// (5) Positions keep their meaning in all versions: checkpoints hold positions and OrderOptions.
//
// Permutation: the two halves of the Feistel network may differ by one bit, so even rounds change the left half, odd
// rounds the right half, and halves are not swapped. The rounds are invertible for any round function, and cycle
// walking restricts the bijection to [0, n).
//
// Cost: EpochOrder computes the sample at a position by one permutation of six rounds, applied at most twice on
// average. OrderWindow needs one permutation for a position with `mixed`, and none without. An epoch begins with one
// permutation for each chunk. Memory: 8 bytes for each window, and 24 bytes for each chunk of the window in use.
//
// Source: Black and Rogaway, "Ciphers with arbitrary finite domains", CT-RSA 2002, method 3.
#include <mn/data/order.hpp>

#include <bit>
#include <cassert>

#include <mn/core/random.hpp>

namespace mn::data {
namespace {

std::uint64_t mix(std::uint64_t x) { return SplitMix64(x).next(); }

std::uint64_t mix(std::uint64_t a, std::uint64_t b) { return mix(mix(a) ^ b); }

std::uint64_t low_bits(int bits) { return (std::uint64_t{1} << bits) - 1; }

enum Purpose : std::uint64_t { kStream = 1, kSamples, kChunks, kPhase, kLane };

// 3 · 2^k lanes, because the usual numbers of ranks, 2^i and 3 · 2^i, divide this number.
constexpr std::int64_t kMaxLanes = 3072;
constexpr std::int64_t kLeastLanes = 3;
// Least length of a lane in blocks. A block at a border of lanes is read twice: at most 1/16 more bytes are read.
constexpr std::int64_t kLaneBlocks = 16;
// Least length of a lane in samples. If each lane lies in a different file, a rank opens a file for every 192 samples.
constexpr std::int64_t kLaneSamples = 192;
constexpr std::int64_t kLongLaneSamples = 1024;  // longer lanes would mix samples less and save no reads
// Smaller data are cheap to read again, so they get more and shorter lanes, which mix samples better.
constexpr std::int64_t kMediumBytes = std::int64_t{8} << 30;
constexpr std::int64_t kMediumLanes = 768;
// Least lanes for each rank if the ranks do not divide the lanes. Two ranks then share only about one lane of 32.
constexpr std::int64_t kOwnLanes = 32;

std::int64_t least_lane_samples(std::int64_t lanes, const StorageLayout& layout) {
  if (layout.is_packed) return std::max(kLaneBlocks * layout.block_samples, kLaneSamples);
  if (layout.bytes < kMediumBytes && lanes <= kMediumLanes) return std::max<std::int64_t>(4 * layout.block_samples, 8);
  return std::max(kLaneBlocks * layout.block_samples, kLaneSamples);
}

/// About how many files a rank reads from at a time: one for each chunk, and one for each border of files in the lanes.
double files_in_use(std::int64_t lanes, std::int64_t adjacent, std::int64_t lane_samples, double file_samples) {
  const double borders = static_cast<double>(lanes * lane_samples) / file_samples;
  return std::min(static_cast<double>(lanes / adjacent) + borders, 2.0 * static_cast<double>(lanes));
}

/// Bytes of the blocks that one lane has in use.
double live_bytes_of(std::int64_t n, const StorageLayout& layout) {
  const double of_samples =
      static_cast<double>(layout.bytes) / static_cast<double>(n) * static_cast<double>(layout.block_samples);
  return std::max(of_samples, static_cast<double>(layout.live_bytes));
}

OrderOptions order_for_any_ranks(std::int64_t n, const StorageLayout& layout, bool shuffle) {
  if (!shuffle) return {};
  if (layout.files == 0 || layout.bytes <= kFullShuffleBytes) return {.shuffle = true};
  const double block_bytes = live_bytes_of(n, layout);
  const double file_samples = static_cast<double>(n) / static_cast<double>(layout.files);
  const double index_bytes = static_cast<double>(layout.index_bytes) / static_cast<double>(layout.files);
  const double open_files = std::clamp(kMaxIndexBytes / std::max(index_bytes, 1.0), 1.0, double{kMaxOpenFiles});
  const bool large = layout.block_samples == 1 && block_bytes >= kLargeSampleBytes;
  OrderOptions order{.shuffle = true, .lanes = kMaxLanes, .mixed = large};
  for (; order.lanes > kLeastLanes; order.lanes /= 2) {
    std::int64_t samples = least_lane_samples(order.lanes, layout);
    if (order.lanes * samples > n) continue;
    // Blocks of several samples stay in memory until all their samples were used.
    if (layout.block_samples > 1 && static_cast<double>(order.lanes) * block_bytes > kMaxLiveBytes) continue;
    const bool all_open = static_cast<double>(layout.files) <= open_files;
    if (all_open) samples = std::max(samples, kLongLaneSamples);
    order.windows = std::max<std::int64_t>(1, n / (order.lanes * samples));
    if (all_open) return order;
    for (order.adjacent = 1; order.adjacent <= order.lanes / kLeastLanes; order.adjacent *= 2) {
      if (files_in_use(order.lanes, order.adjacent, samples, file_samples) <= open_files) return order;
    }
    order.adjacent = 1;
  }
  order.windows = std::max<std::int64_t>(1, n / (order.lanes * least_lane_samples(order.lanes, layout)));
  return order;
}

/// Whether few blocks are read by two ranks, and each rank has memory for the blocks that it has in use.
bool is_divided_well(const OrderOptions& order, double live_bytes, int ranks) {
  const std::int64_t own = (order.lanes + ranks - 1) / ranks;
  return (order.lanes % ranks == 0 || own >= kOwnLanes) &&
         static_cast<double>(own) * live_bytes <= static_cast<double>(rank_live_bytes(ranks));
}

/// An order with equally many lanes for each rank: as many as a rank has room for, but at least one.
OrderOptions order_for_ranks(std::int64_t n, const StorageLayout& layout, int ranks) {
  OrderOptions order{.shuffle = true, .aligned = layout.block_samples};
  const double live_bytes = live_bytes_of(n, layout);
  const std::int64_t least = std::max(kLaneBlocks * layout.block_samples, kLaneSamples);
  std::int64_t own = std::bit_floor(static_cast<std::uint64_t>(std::max<std::int64_t>(kMaxLanes / ranks, 1)));
  const auto fits = [&] {
    return static_cast<double>(own) * live_bytes <= static_cast<double>(rank_live_bytes(ranks)) &&
           own * ranks * least <= n;
  };
  while (own > 1 && !fits()) own /= 2;
  order.lanes = std::min(own * ranks, n);
  order.windows = std::max<std::int64_t>(n / (order.lanes * std::max(least, kLongLaneSamples)), 1);
  if (order.lanes == 1) order.windows = std::clamp<std::int64_t>(n, 1, std::max<std::int64_t>(order.windows, 2));
  return order;
}

}  // namespace

Permutation::Permutation(std::uint64_t n, std::uint64_t key) : n_(n) {
  const int bits = std::max(2, static_cast<int>(std::bit_width(n - 1)));
  left_bits_ = bits / 2;
  right_bits_ = bits - left_bits_;
  for (int round = 0; round < kRounds; ++round) round_keys_[round] = mix(key, round);
}

std::uint64_t Permutation::encrypt(std::uint64_t x) const {
  std::uint64_t left = x >> right_bits_;
  std::uint64_t right = x & low_bits(right_bits_);
  for (int round = 0; round < kRounds; round += 2) {
    left ^= mix(right ^ round_keys_[round]) & low_bits(left_bits_);
    right ^= mix(left ^ round_keys_[round + 1]) & low_bits(right_bits_);
  }
  return left << right_bits_ | right;
}

std::uint64_t Permutation::operator()(std::uint64_t x) const {
  if (n_ <= 1) return x;
  do x = encrypt(x);
  while (x >= n_);
  return x;
}

OrderOptions default_order(std::int64_t n, const StorageLayout& layout, bool shuffle, int ranks) {
  const OrderOptions order = order_for_any_ranks(n, layout, shuffle);
  return order.lanes == 1 || !layout.is_packed || is_divided_well(order, live_bytes_of(n, layout), ranks)
             ? order
             : order_for_ranks(n, layout, ranks);
}

EpochOrder::EpochOrder(std::int64_t n, const OrderOptions& options, std::uint64_t seed, std::int64_t epoch)
    : n_(n), options_(options) {
  if (!options.shuffle) options_.lanes = 1;
  const std::uint64_t epoch_key = mix(seed, static_cast<std::uint64_t>(epoch));
  if (options_.lanes == 1 && (!options.shuffle || options.windows == 1)) {
    if (options.shuffle) permutation_ = Permutation(n, mix(mix(epoch_key, kStream), kSamples));
    return;
  }
  const std::int64_t chunks = options.windows * chunks_per_window();
  chunk_samples_ = n / chunks;
  longer_chunks_ = n % chunks;
  phase_key_ = mix(epoch_key, kPhase);
  lane_key_ = mix(epoch_key, kLane);
  permutation_ = Permutation(chunks, mix(epoch_key, kChunks));
  window_firsts_ = {0};
  for (std::int64_t window = 0; window < options.windows; ++window) {
    std::int64_t samples = chunks_per_window() * chunk_samples_;
    for (std::int64_t number = 0; longer_chunks_ > 0 && number < chunks_per_window(); ++number) {
      samples += permutation_(window * chunks_per_window() + number) < static_cast<std::uint64_t>(longer_chunks_);
    }
    window_firsts_.push_back(window_firsts_.back() + samples);
  }
  assert(window_firsts_.back() == n);  // the windows have all samples
}

EpochOrder::Chunk EpochOrder::chunk(std::int64_t window, std::int64_t number) const {
  const auto at = static_cast<std::int64_t>(permutation_(window * chunks_per_window() + number));
  const std::int64_t length = chunk_samples_ + (at < longer_chunks_ ? 1 : 0);
  const std::int64_t begin = at * chunk_samples_ + std::min(at, longer_chunks_);
  const std::uint64_t random = mix(phase_key_, static_cast<std::uint64_t>(at));
  // Reading begins at the beginning of a block, because a block would be read twice if reading began in its middle.
  const std::int64_t first = (begin + options_.aligned - 1) / options_.aligned * options_.aligned - begin;
  const std::int64_t phases = std::max<std::int64_t>((length - first + options_.aligned - 1) / options_.aligned, 0);
  const auto chosen = static_cast<std::int64_t>(random % static_cast<std::uint64_t>(std::max<std::int64_t>(phases, 1)));
  return {.begin = begin, .length = length, .phase = phases > 0 ? first + chosen * options_.aligned : 0};
}

std::vector<EpochOrder::Stretch> EpochOrder::stretches(std::int64_t first, std::int64_t last) const {
  if (!has_lanes()) return {{0, first, last}};
  std::vector<Stretch> found;
  const auto next = std::upper_bound(window_firsts_.begin(), window_firsts_.end(), first);
  for (auto begin = next - 1; begin + 1 != window_firsts_.end() && *begin < last; ++begin) {
    if (begin[0] == begin[1]) continue;
    found.push_back(
        {begin - window_firsts_.begin(), std::max(first - *begin, std::int64_t{0}), std::min(last, begin[1]) - *begin});
  }
  return found;
}

std::int64_t EpochOrder::operator()(std::int64_t position) const {
  if (!options_.shuffle) return position;
  if (!has_lanes()) return static_cast<std::int64_t>(permutation_(position));
  const Stretch at = stretches(position, position + 1).front();
  const OrderWindow window(*this, at.window);
  const auto rounds = window.rounds(at.first, at.last);
  const auto found = std::find_if(rounds.begin(), rounds.end(), [](const auto& lane) { return lane.count() > 0; });
  return window.sample(found - rounds.begin(), found->first);
}

OrderWindow::OrderWindow(const EpochOrder& order, std::int64_t number) : order_(&order), number_(number) {
  if (!order.has_lanes()) return;
  chunks_.reserve(order.chunks_per_window());
  for (std::int64_t i = 0; i < order.chunks_per_window(); ++i) chunks_.push_back(order.chunk(number, i));
}

std::int64_t OrderWindow::lane_length(std::int64_t lane) const {
  const auto chunks = static_cast<std::int64_t>(chunks_.size());
  const std::int64_t length = chunks_[lane % chunks].length;
  const std::int64_t adjacent = order_->options_.adjacent;
  const std::int64_t samples = length / adjacent + (lane / chunks < length % adjacent ? 1 : 0);
  assert(samples == order_->full_rounds() || samples == order_->full_rounds() + 1);  // lanes have equal lengths (± 1)
  return samples;
}

std::vector<OrderWindow::Rounds> OrderWindow::rounds(std::int64_t first, std::int64_t last) const {
  const std::int64_t lanes = order_->lanes();
  if (!order_->has_lanes()) return {{first, last}};
  const std::int64_t full = order_->full_rounds();
  const std::int64_t regular_first = std::min(first, full * lanes);
  const std::int64_t regular_last = std::min(last, full * lanes);
  std::vector<Rounds> found(lanes);
  for (std::int64_t lane = 0; lane < lanes; ++lane) {
    found[lane].first = regular_first / lanes + (lane < regular_first % lanes ? 1 : 0);
    found[lane].last = regular_last / lanes + (lane < regular_last % lanes ? 1 : 0);
  }
  if (last <= full * lanes) return found;
  std::int64_t position = full * lanes;
  for (std::int64_t lane = 0; lane < lanes; ++lane) {
    if (lane_length(lane) == full) continue;
    if (position < first) found[lane].first = full + 1;
    if (position < last) found[lane].last = full + 1;
    ++position;
  }
  return found;
}

std::int64_t OrderWindow::sample(std::int64_t lane, std::int64_t round) const {
  if (!order_->has_lanes()) return (*order_)(round);
  const auto chunks = static_cast<std::int64_t>(chunks_.size());
  const EpochOrder::Chunk& chunk = chunks_[lane % chunks];
  const std::int64_t adjacent = order_->options_.adjacent;
  const std::int64_t part = lane / chunks;
  const std::int64_t begin = part * (chunk.length / adjacent) + std::min(part, chunk.length % adjacent);
  if (order_->options_.mixed) {
    const std::uint64_t key = mix(order_->lane_key_, static_cast<std::uint64_t>(chunk.begin + begin));
    round = static_cast<std::int64_t>(Permutation(lane_length(lane), key)(round));
  }
  return chunk.begin + (begin + round + chunk.phase) % chunk.length;
}

}  // namespace mn::data

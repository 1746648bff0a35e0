// Divides the samples of a step between ranks. A lane is a run of neighboring samples (order.cpp). A rank reads from
// the same lanes step after step, so that it uses all samples of the blocks that it reads.
//
// Each rank must take an equal share of each step, but the number of ranks R rarely divides the number of lanes. So
// each rank owns a = ⌊lanes / R⌋ lanes, and the remaining c = lanes mod R lanes are shared.
//
//   own lanes     lane i < a·R belongs to rank i mod R
//   shared lanes  lane a·R + j gives samples to the ranks r with r mod c = j whose own lanes do not give enough
//   leftovers     samples that remain in any lane; they go, lane by lane, to the ranks that need more samples
//
// If there are more ranks than lanes (a = 0), all samples are leftovers.
//
// (1) Rank r takes ⌈(r + 1)·G/R⌉ − ⌈r·G/R⌉ samples of a step of G samples. So the ranks with one sample more are spread
//     evenly over all ranks.
// (2) The division is a function of the lanes' counts and of R alone: every rank computes it, without messages.
// (3) If R divides G and the step lies within one window's complete rounds, a rank's own lanes never give more than the
//     rank's share. Proof: take G neighboring positions, and the residues mod R of the own lanes at these positions.
//     All residues occur equally often, except for two runs: residues [R − u, R) at the end of a round, and [0, v) at
//     the beginning of the next round, with u + v ≡ −c mod R. So the counts of two ranks differ by at most one. For
//     each end of a round within the step, c neighboring ranks lack one sample; these ranks have c different residues
//     mod c unless they reach over rank R − 1.
// (4) A shared lane serves about R / c ranks, the same ranks in all steps. So all ranks together read blocks more than
//     once; the extra reads are about R / lanes of all reads.
//
// Cost: O(lanes + ranks) additions for each step. Memory: the chunks of the windows of one step.
#include <mn/data/step_division.hpp>

#include <algorithm>
#include <cassert>
#include <numeric>

namespace mn::data {
namespace {

/// Hands the samples of a step's lanes to ranks, and records what the rank `rank` gets.
class Dealer {
 public:
  Dealer(std::span<const std::int64_t> counts, int rank, int ranks)
      : counts_(counts), taken_(counts.size()), rank_(rank), left_(ranks) {
    const std::int64_t total = std::accumulate(counts.begin(), counts.end(), std::int64_t{0});
    const auto begin = [&](std::int64_t r) { return (r * total + ranks - 1) / ranks; };
    for (int r = 0; r < ranks; ++r) left_[r] = begin(r + 1) - begin(r);
  }

  /// Hands samples of the lane to the rank: as many as the rank still needs and the lane still has.
  void deal(std::int64_t lane, std::int64_t rank) {
    const std::int64_t count = std::min(counts_[lane] - taken_[lane], left_[rank]);
    if (count == 0) return;
    if (rank == rank_) pieces_.push_back({lane, taken_[lane], count});
    taken_[lane] += count;
    left_[rank] -= count;
  }

  void deal_leftovers() {
    std::int64_t lane = 0;
    for (std::size_t rank = 0; rank < left_.size(); ++rank) {
      while (left_[rank] > 0) {
        deal(lane, static_cast<std::int64_t>(rank));
        if (taken_[lane] == counts_[lane]) ++lane;
      }
    }
    assert(taken_ == std::vector(counts_.begin(), counts_.end()));  // no sample is left over
  }

  std::vector<LanePiece> pieces() && { return std::move(pieces_); }

 private:
  std::span<const std::int64_t> counts_;
  std::vector<std::int64_t> taken_;
  std::int64_t rank_;
  std::vector<std::int64_t> left_;  // [ranks] number of samples that the rank still needs
  std::vector<LanePiece> pieces_;
};

}  // namespace

std::vector<LanePiece> divide_lanes(std::span<const std::int64_t> counts, int rank, int ranks) {
  const auto lanes = static_cast<std::int64_t>(counts.size());
  const std::int64_t own = lanes / ranks * ranks;
  Dealer dealer(counts, rank, ranks);
  for (std::int64_t lane = 0; lane < own; ++lane) dealer.deal(lane, lane % ranks);
  if (own > 0 && own < lanes) {
    for (std::int64_t r = 0; r < ranks; ++r) dealer.deal(own + r % (lanes - own), r);
  }
  dealer.deal_leftovers();
  return std::move(dealer).pieces();
}

const OrderWindow& StepDivision::window(std::int64_t number) {
  const auto found =
      std::find_if(windows_.begin(), windows_.end(), [&](const auto& w) { return w.number() == number; });
  return found != windows_.end() ? *found : windows_.emplace_back(order_, number);
}

std::vector<std::int64_t> StepDivision::samples(std::int64_t first, std::int64_t last, int rank, int ranks) {
  const auto stretches = order_.stretches(first, last);
  if (stretches.empty()) return {};
  while (!windows_.empty() && windows_.front().number() < stretches.front().window) windows_.pop_front();
  std::vector<std::vector<OrderWindow::Rounds>> rounds;
  std::vector<std::int64_t> counts(order_.lanes());
  for (const auto& stretch : stretches) {
    rounds.push_back(window(stretch.window).rounds(stretch.first, stretch.last));
    for (std::size_t lane = 0; lane < counts.size(); ++lane) counts[lane] += rounds.back()[lane].count();
  }

  std::vector<std::int64_t> samples;
  samples.reserve((last - first) / ranks + 1);
  for (const LanePiece& piece : divide_lanes(counts, rank, ranks)) {
    std::int64_t skip = piece.first;
    std::int64_t left = piece.count;
    for (std::size_t s = 0; s < stretches.size() && left > 0; ++s) {
      const OrderWindow::Rounds in = rounds[s][piece.lane];
      const std::int64_t take = std::clamp<std::int64_t>(in.count() - skip, 0, left);
      for (std::int64_t i = 0; i < take; ++i) {
        samples.push_back(window(stretches[s].window).sample(piece.lane, in.first + skip + i));
      }
      skip = std::max<std::int64_t>(skip - in.count(), 0);
      left -= take;
    }
  }
  return samples;
}

}  // namespace mn::data

/// Limits the memory of the batches that a loader makes ahead.
#pragma once

#include <algorithm>
#include <cassert>
#include <cstdint>
#include <utility>
#include <vector>

#include <mn/data/raw_samples.hpp>

namespace mn {

struct BatchBytes {
  std::int64_t raw = 0;   ///< bytes of the samples as read
  std::int64_t made = 0;  ///< most bytes of tensors at a time, on host and device, while the batch is made
  std::int64_t kept = 0;  ///< bytes of the finished batch's tensors
};

/// Decides, by a limit on memory, when a loader may begin one more batch. Counts raw samples, batches in work, ready
/// batches, the batch that the caller has, and the dataset's blocks. The loader's mutex guards the object.
///
/// (1) A batch in work counts as many bytes as the largest batch so far. Until the first batch is finished, it counts
///     the estimated bytes of its samples, and kFirstGuess times as many for its tensors.
/// (2) If there is no room for one more batch, the loader makes a batch only when the caller waits for it.
/// (3) The memory of a finished batch's raw samples is kept for the next batches, unless the limit requires to free it.
class BatchBudget {
 public:
  /// `bytes` is the limit. `raw_guess` is an estimate of the bytes of a batch's samples. If it is 0 (unknown), no
  /// second batch is begun before the first batch is finished.
  BatchBudget(std::int64_t bytes, std::int64_t raw_guess)
      : bytes_(bytes), largest_{.raw = raw_guess, .made = kFirstGuess * raw_guess} {}

  /// Whether a worker may begin a batch. `waits`: the caller waits in next(). `held`: bytes of the dataset's blocks.
  [[nodiscard]] bool has_room(bool waits, std::int64_t held) {
    if (waits && in_work_ == 0 && ready_ == 0) return true;
    if (largest_.raw == 0) return false;
    held = std::min(held, for_dataset());
    while (spare_.size() > 1 && held + used() + cost() > bytes_) spare_.pop_back();
    return held + used() + cost() <= bytes_;
  }
  /// Counts one more batch in work. Returns memory for its samples.
  [[nodiscard]] RawSamples begin() {
    ++in_work_;
    if (spare_.empty()) return {};
    RawSamples raw = std::move(spare_.back());
    spare_.pop_back();
    return raw;
  }
  /// Counts a batch as finished. `wanted` is false if next() will never hand out the batch.
  void end(RawSamples raw, const BatchBytes& took, bool wanted) {
    if (std::exchange(is_guess_, false)) largest_ = {};
    largest_.raw = std::max(largest_.raw, took.raw);
    largest_.made = std::max(largest_.made, took.made);
    largest_.kept = std::max(largest_.kept, took.kept);
    --in_work_;
    assert(in_work_ >= 0);
    if (wanted) {
      ++ready_;
      ready_bytes_ += took.kept;
    }
    spare_.push_back(std::move(raw));
    if (used() > bytes_) spare_.pop_back();
  }
  void drop(std::int64_t kept) {
    --ready_;
    ready_bytes_ -= kept;
    assert(ready_ >= 0 && ready_bytes_ >= 0);
  }
  void hand_out(std::int64_t kept) {
    drop(kept);
    handed_out_ = kept;
  }
  void take_back() { handed_out_ = 0; }

  [[nodiscard]] std::int64_t bytes() const noexcept { return bytes_; }
  /// The part of the limit for the dataset's blocks, which only a single larger block may exceed.
  [[nodiscard]] std::int64_t for_dataset() const noexcept { return bytes_ / 4 * 3; }
  /// Bytes needed to make one batch ahead: the dataset's blocks, a batch in work, and a finished batch.
  [[nodiscard]] std::int64_t needed(std::int64_t held) const {
    return std::min(held, for_dataset()) + largest_.raw + largest_.made + largest_.kept;
  }

 private:
  static constexpr std::int64_t kFirstGuess = 8;  // for example, a JPEG of 110 KB becomes 600 KB of floats

  [[nodiscard]] std::int64_t used() const {
    return handed_out_ + ready_bytes_ + in_work_ * (largest_.raw + largest_.made) +
           static_cast<std::int64_t>(spare_.size()) * largest_.raw;
  }
  /// Bytes that one more batch in work would add.
  [[nodiscard]] std::int64_t cost() const { return largest_.made + (spare_.empty() ? largest_.raw : 0); }

  std::int64_t bytes_;
  BatchBytes largest_;
  bool is_guess_ = true;
  std::int64_t in_work_ = 0;  // batches in work
  std::int64_t ready_ = 0;    // batches that next() has not handed out yet
  std::int64_t ready_bytes_ = 0;
  std::int64_t handed_out_ = 0;    // bytes of the caller's batch
  std::vector<RawSamples> spare_;  // memory of finished batches' samples, for the next batches
};

}  // namespace mn

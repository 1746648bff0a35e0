/// Which samples each rank takes in each step: the same for any number of ranks, resumable at any step.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include <nlohmann/json.hpp>

#include <mn/data/order.hpp>

namespace mn {

struct SamplerOptions {
  std::int64_t batchsize = 1;  ///< of each rank; a step takes batchsize × ranks samples
  int rank = 0;
  int ranks = 1;
  std::uint64_t seed = 0;
  bool drop_last = false;  ///< leave the samples of a last, short step out
  data::OrderOptions order;
};

/// One step of one rank.
struct SamplerStep {
  std::int64_t epoch = 0;
  std::int64_t first = 0;  ///< the step takes positions [first, last) of the epoch's order
  std::int64_t last = 0;
  std::vector<std::int64_t>
      indices;  ///< this rank's samples: the positions p with p mod ranks = rank. May be empty in a last step
};

/// Step k of an epoch takes positions [k·G, (k + 1)·G) of its order, G = batchsize × ranks, whatever the number of
/// ranks; per-rank counts differ by at most one. The order is a function of (seed, epoch) alone, so a state taken in
/// mid-epoch continues with any number of ranks and any batch size, and each sample still comes exactly once.
class Sampler {
 public:
  /// `size` samples; `fingerprint` names the dataset in the state. Throws UsageError if there are more ranks than
  /// samples, if batchsize < 1, or if drop_last leaves nothing.
  Sampler(std::int64_t size, std::uint64_t fingerprint, const SamplerOptions& options);

  /// The next step; nothing, once, at the end of each epoch, after which the next epoch begins.
  [[nodiscard]] std::optional<SamplerStep> next();

  /// Continues at the beginning of `epoch`.
  void set_epoch(std::int64_t epoch);

  [[nodiscard]] std::int64_t size() const noexcept { return size_; }
  /// Steps of a whole epoch, the same on all ranks.
  [[nodiscard]] std::int64_t steps_per_epoch() const noexcept;
  /// Positions of a whole epoch: size(), or less with drop_last.
  [[nodiscard]] std::int64_t samples_per_epoch() const noexcept;

  /// One small record, equal on all ranks: what follows once `consumed` positions of `epoch` have been used.
  [[nodiscard]] nlohmann::json state(std::int64_t epoch, std::int64_t consumed) const;
  /// Continues from a state, also one of another number of ranks or batch size; seed and order come from the state.
  /// Throws DataError if it belongs to another dataset or is not such a record.
  void load_state(const nlohmann::json& state);

  [[nodiscard]] std::int64_t epoch() const noexcept { return epoch_; }
  [[nodiscard]] std::int64_t consumed() const noexcept { return consumed_; }
  [[nodiscard]] std::uint64_t seed() const noexcept { return options_.seed; }

 private:
  [[nodiscard]] std::int64_t epoch_end() const noexcept;

  std::int64_t size_;
  std::uint64_t fingerprint_;
  SamplerOptions options_;
  std::int64_t epoch_ = 0;
  std::int64_t consumed_ = 0;
  data::EpochOrder order_;
};

}  // namespace mn

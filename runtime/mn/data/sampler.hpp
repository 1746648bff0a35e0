/// Decides which samples each rank takes in each step.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include <nlohmann/json_fwd.hpp>

#include <mn/data/order.hpp>
#include <mn/data/step_division.hpp>
#include <mn/data/weighted_draws.hpp>

namespace mn {

struct SamplerOptions {
  std::int64_t batchsize = 1;  ///< samples of a minibatch on each rank
  int rank = 0;
  int ranks = 1;
  std::uint64_t seed = 0;
  bool drop_last = false;  ///< omit a short last step
  /// Used only if drop_last is false. True: the last two steps of an epoch share the remaining samples evenly. So no
  /// step has much less than half of a full step's samples, and every rank has a sample if batchsize ≥ 2. False: the
  /// last step is short.
  bool even_last = true;
  data::OrderOptions order;
};

struct SamplerStep {
  std::int64_t epoch = 0;
  std::int64_t consumed = 0;          ///< samples of the epoch that all ranks have used after this step
  bool ends_epoch = false;            ///< the last step of its epoch
  std::uint64_t seed = 0;             ///< seed of the order and of augmentation
  std::vector<std::int64_t> indices;  ///< this rank's samples; may be empty in the last steps
};

struct EpochPosition {
  std::int64_t epoch = 0;     ///< completed epochs
  std::int64_t consumed = 0;  ///< samples of the current epoch that were handed out to all ranks

  void pass(const SamplerStep& step) {
    epoch = step.epoch + (step.ends_epoch ? 1 : 0);
    consumed = step.ends_epoch ? 0 : step.consumed;
  }
  /// Completed epochs plus the completed fraction of the current epoch. `samples`: samples of an epoch.
  [[nodiscard]] double detail(std::int64_t samples) const {
    return static_cast<double>(epoch) + static_cast<double>(consumed) / static_cast<double>(samples);
  }
};

/// The samples of this rank, step after step. Every rank has an equal number of steps. An epoch has each sample exactly
/// once, unless a DrawSampler draws samples by weight. A sampler reads no data.
class Sampler {
 public:
  virtual ~Sampler() = default;
  Sampler(const Sampler&) = delete;
  Sampler& operator=(const Sampler&) = delete;

  /// Returns the next step. At the end of each epoch, one call returns no value; the next call begins the next epoch.
  [[nodiscard]] std::optional<SamplerStep> next();
  void set_epoch(std::int64_t epoch);

  /// Samples of an epoch, over all ranks.
  [[nodiscard]] std::int64_t size() const noexcept { return size_; }
  [[nodiscard]] std::uint64_t seed() const noexcept { return options_.seed; }
  [[nodiscard]] std::int64_t epoch() const noexcept { return position_.epoch; }
  [[nodiscard]] std::int64_t consumed() const noexcept { return position_.consumed; }
  [[nodiscard]] const EpochPosition& position() const noexcept { return position_; }
  /// Steps of a whole epoch, equal on all ranks.
  [[nodiscard]] std::int64_t steps_per_epoch() const { return do_steps_per_epoch(); }

  /// A state, equal on all ranks, from which load_state() continues at `position`.
  [[nodiscard]] nlohmann::json state(const EpochPosition& position) const;
  /// Continues from a state, with its seed and order. Throws DataError if the state belongs to another dataset, is
  /// malformed, or can't continue with this sampler's options.
  void load_state(const nlohmann::json& state);

 protected:
  /// `fingerprint` identifies the dataset in states. Throws UsageError if there are more ranks than samples, if
  /// batchsize < 1, or if drop_last leaves no step.
  Sampler(std::int64_t size, std::uint64_t fingerprint, const SamplerOptions& options);
  [[nodiscard]] const SamplerOptions& options() const noexcept { return options_; }

 private:
  /// The step after consumed() samples of the current epoch. No value at the epoch's end.
  [[nodiscard]] virtual std::optional<SamplerStep> do_next() = 0;
  [[nodiscard]] virtual std::int64_t do_steps_per_epoch() const = 0;
  virtual void do_reorder() = 0;
  /// Throws DataError if this sampler can't resume from `state` in mid-epoch.
  virtual void do_check_mid_epoch(const nlohmann::json& state) const = 0;
  /// Identifies the weights of draws; empty for samplers that don't draw.
  [[nodiscard]] virtual std::string do_draws() const { return {}; }
  /// Throws DataError if `state` belongs to another dataset or, in mid-epoch, to other weights of draws.
  void check_origin(const nlohmann::json& state, bool is_mid_epoch) const;
  [[nodiscard]] data::OrderOptions order_from(const nlohmann::json& state) const;

  std::int64_t size_;
  std::uint64_t fingerprint_;
  SamplerOptions options_;
  EpochPosition position_;
};

/// A sampler for data that every rank can read. A step takes the next G = batchsize × ranks positions of the epoch, so
/// step k takes positions [k·G, (k + 1)·G); only the last two steps may differ. The sample at a position is a function
/// of position, seed and epoch alone. So with equal G a step has equal samples for any number of ranks, and a state in
/// mid-epoch resumes with any number of ranks and any batch size.
class PositionSampler : public Sampler {
 protected:
  using Sampler::Sampler;

 private:
  std::optional<SamplerStep> do_next() final;
  std::int64_t do_steps_per_epoch() const final;
  void do_check_mid_epoch(const nlohmann::json&) const final {}
  /// This rank's samples of positions [first, last).
  [[nodiscard]] virtual std::vector<std::int64_t> do_samples(std::int64_t first, std::int64_t last) = 0;
  /// Seed of the augmentation of the step that begins at position `first`.
  [[nodiscard]] virtual std::uint64_t do_step_seed(std::int64_t first) const = 0;
};

/// Takes each sample once in an epoch. Each rank gets equally many samples (± 1), and reads at few places.
class GlobalSampler final : public PositionSampler {
 public:
  GlobalSampler(std::int64_t size, std::uint64_t fingerprint, const SamplerOptions& options);

 private:
  void do_reorder() override;
  std::vector<std::int64_t> do_samples(std::int64_t first, std::int64_t last) override;
  std::uint64_t do_step_seed(std::int64_t) const override { return seed(); }

  std::optional<data::StepDivision> division_;
};

/// Draws samples by weight. A sample drawn again in a later step of the epoch is augmented in another way.
class DrawSampler final : public PositionSampler {
 public:
  /// `samples`: number of samples in the dataset. Throws UsageError as data::Draws and Sampler do.
  DrawSampler(std::int64_t samples, std::uint64_t fingerprint, const DrawOptions& draws, const SamplerOptions& options);

 private:
  DrawSampler(data::Draws draws, std::uint64_t fingerprint, const SamplerOptions& options);
  void do_reorder() override;
  std::vector<std::int64_t> do_samples(std::int64_t first, std::int64_t last) override;
  std::uint64_t do_step_seed(std::int64_t first) const override;
  std::string do_draws() const override;

  data::Draws draws_;
};

/// A sampler for ranks that each take the samples of their own part, in an order of this part. A step takes the next
/// `batchsize` samples; only the last two steps may differ. A state in mid-epoch resumes only with an equal number of
/// ranks and batch size.
class PartSampler final : public Sampler {
 public:
  /// Rank r has part_sizes[r] samples; the sizes differ by at most one.
  PartSampler(std::vector<std::int64_t> part_sizes, std::uint64_t fingerprint, const SamplerOptions& options);

 private:
  std::optional<SamplerStep> do_next() override;
  std::int64_t do_steps_per_epoch() const override;
  void do_reorder() override;
  void do_check_mid_epoch(const nlohmann::json& state) const override;
  /// How many of the `part` samples of its part a rank has taken after step `step`; −1: before the first step.
  [[nodiscard]] std::int64_t end_of(std::int64_t step, std::int64_t part) const;

  std::vector<std::int64_t> part_sizes_;
  data::EpochOrder order_;
};

}  // namespace mn

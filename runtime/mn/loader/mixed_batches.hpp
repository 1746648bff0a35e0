/// Minibatches of images, mixed in pairs by mixup or CutMix.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>

#include <mn/image/augment_options.hpp>
#include <mn/loader/iterator.hpp>

namespace mn {

/// Wraps another iterator: data stays (N, 3, H, W), target becomes (N, num_classes) float32, which cross_entropy takes
/// as it takes labels: each sample's own label and its partner's, by their shares.
///
/// (1) What is drawn for a sample (its share, mixup or CutMix, the part that is pasted) is a function of (seed, epoch,
///     the sample's number in the dataset) alone: of neither ranks, batch size nor workers.
/// (2) Its partner is a sample of the same rank's minibatch, half a minibatch further on, so that no pixels travel
///     between ranks. Which one that is follows from the step's order (seed, epoch, step) and from how ranks divide it:
///     the result of a step depends on the number of ranks and on their batch size too, on nothing else. An interrupted
///     job that resumes with as many ranks and the same batch size takes the same steps, bit for bit on CPUs.
/// (3) A minibatch of one image stays as it is.
///
/// Batches come on any device, with float32 images and int64 labels, and know their indices. Use from one thread.
class MixedBatches final : public Iterator {
 public:
  /// Throws ArgumentError if an α is negative, or if there is no class.
  MixedBatches(std::shared_ptr<Iterator> batches, const data::MixOptions& options, std::int64_t num_classes,
               std::uint64_t seed);

  /// Throws ArgumentError if the batch has other types, or no indices.
  [[nodiscard]] std::optional<Batch> next() override;
  /// The wrapped iterator's, as all of the following.
  [[nodiscard]] std::int64_t epoch() const override { return batches_->epoch(); }
  [[nodiscard]] double epoch_detail() const override { return batches_->epoch_detail(); }
  [[nodiscard]] std::int64_t steps_per_epoch() const override { return batches_->steps_per_epoch(); }
  [[nodiscard]] double data_wait_s() const override { return batches_->data_wait_s(); }
  [[nodiscard]] LoaderStats stats() const override { return batches_->stats(); }
  /// With the seed: a job that resumes mixes as before.
  [[nodiscard]] nlohmann::json state() const override;
  /// Also takes a state of the wrapped iterator alone.
  void load_state(const nlohmann::json& state) override;

 private:
  std::shared_ptr<Iterator> batches_;
  data::MixOptions options_;
  std::int64_t num_classes_;
  std::uint64_t seed_;
};

}  // namespace mn

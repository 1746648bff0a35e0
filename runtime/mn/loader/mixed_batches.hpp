/// Minibatches of images, mixed in pairs by mixup or CutMix.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>

#include <mn/image/augment_options.hpp>
#include <mn/loader/iterator.hpp>

namespace mn {

/// Wraps another iterator: data stays (N, 3, H, W), target becomes (N, num_classes) float32 for cross_entropy: each
/// sample's label and its partner's label, by their shares.
///
/// (1) The random choices for a sample (share, mixup or CutMix, pasted part) are a function of (seed, epoch, the
///     sample's number in the dataset) alone: not of ranks, batch size or workers.
/// (2) A sample's partner is half a minibatch further on in the rank's minibatch, so that no pixels travel between
///     ranks. The partner follows from the step's order (seed, epoch, step) and its division between ranks: a step's
///     result also depends on the number of ranks and the batch size, and on nothing else. A job that resumes with
///     equal ranks and batch size repeats its steps, bit for bit on CPUs.
/// (3) A minibatch of one image stays unchanged.
///
/// Batches come on any device, with float32 images, int64 labels and indices. Use from one thread.
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
  /// The wrapped iterator's state, and the seed: a job that resumes repeats its random choices.
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

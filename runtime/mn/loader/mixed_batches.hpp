/// Minibatches of images, mixed in pairs by mixup or CutMix.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>

#include <mn/image/augment_options.hpp>
#include <mn/loader/iterator.hpp>

namespace mn {

/// Wraps an iterator and mixes its minibatches. Batch::data stays (N, 3, H, W). Batch::target becomes (N, num_classes),
/// float32, for cross_entropy: the shares of each sample's label and of its partner's label.
///
/// (1) The random choices for a sample (share, mixup or CutMix, pasted part) are a function of the seed, the epoch and
///     the sample's number in the dataset, and do not depend on ranks, batch size or workers.
/// (2) A sample's partner is the sample half a minibatch further on in the same rank's minibatch, so ranks send no
///     pixels. Therefore a step's result also depends on the number of ranks and the batch size. A job that resumes
///     with the same number of ranks and batch size repeats its steps, bit for bit on CPUs.
/// (3) A minibatch of one image stays unchanged.
///
/// The wrapped iterator's batches may be on any device; they need float32 images, int64 labels and indices. Use from
/// one thread.
class MixedBatches final : public Iterator {
 public:
  /// Throws ArgumentError if an α of `options` is negative or if num_classes < 1.
  MixedBatches(std::shared_ptr<Iterator> batches, const data::MixOptions& options, std::int64_t num_classes,
               std::uint64_t seed);

  /// The wrapped iterator's next minibatch, mixed. Throws ArgumentError if the batch's images are not float32, its
  /// labels are not int64, or it has no indices.
  [[nodiscard]] std::optional<Batch> next() override;
  /// The wrapped iterator's value, as for all members below except state() and load_state().
  [[nodiscard]] std::int64_t epoch() const override { return batches_->epoch(); }
  [[nodiscard]] double epoch_detail() const override { return batches_->epoch_detail(); }
  [[nodiscard]] std::int64_t steps_per_epoch() const override { return batches_->steps_per_epoch(); }
  [[nodiscard]] EpochSize epoch_size() const override { return batches_->epoch_size(); }
  [[nodiscard]] double data_wait_s() const override { return batches_->data_wait_s(); }
  [[nodiscard]] LoaderStats stats() const override { return batches_->stats(); }
  /// The wrapped iterator's state and the seed, so that a job that resumes repeats its random choices.
  [[nodiscard]] nlohmann::json state() const override;
  /// Continues from a state that state() returned, or from a state of the wrapped iterator, which has no seed.
  void load_state(const nlohmann::json& state) override;

 private:
  std::shared_ptr<Iterator> batches_;
  data::MixOptions options_;
  std::int64_t num_classes_;
  std::uint64_t seed_;
};

}  // namespace mn

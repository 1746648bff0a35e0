/// Minibatches of images, mixed in pairs by mixup or CutMix.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>

#include <mn/image/augment_options.hpp>
#include <mn/loader/iterator.hpp>

namespace mn {

/// Gives the minibatches of another iterator, mixed. Batch::data stays (N, 3, H, W). Batch::target becomes (N,
/// num_classes), float32, for cross_entropy: the shares of each sample's label and of its partner's label.
///
/// (1) The random choices for a sample (share, mixup or CutMix, pasted part) depend on the seed, the epoch and the
///     sample's number in the dataset, but not on ranks, batch size or workers.
/// (2) A sample's partner is the sample half a minibatch further on in the same rank's minibatch, so ranks send no
///     pixels. With another number of ranks or batch size, samples get other partners, and results change. A job that
///     resumes with equal numbers repeats its steps, bit for bit on CPUs.
/// (3) A minibatch of one image stays unchanged.
///
/// The other iterator's batches may be on any device; they need float32 images, int64 labels and indices. Only one
/// thread may use a MixedBatches.
class MixedBatches final : public Iterator {
 public:
  /// `batches`: the iterator whose minibatches are mixed. Throws ArgumentError if an α of `options` is negative, or if
  /// num_classes < 1.
  MixedBatches(std::shared_ptr<Iterator> batches, const data::MixOptions& options, std::int64_t num_classes,
               std::uint64_t seed);

  /// Mixes the next minibatch of `batches`. Throws ArgumentError if the images are not float32, the labels are not
  /// int64, or there are no indices.
  [[nodiscard]] std::optional<Batch> next() override;
  /// epoch() … stats() return what `batches` returns.
  [[nodiscard]] std::int64_t epoch() const override { return batches_->epoch(); }
  [[nodiscard]] double epoch_detail() const override { return batches_->epoch_detail(); }
  [[nodiscard]] std::int64_t steps_per_epoch() const override { return batches_->steps_per_epoch(); }
  [[nodiscard]] EpochSize epoch_size() const override { return batches_->epoch_size(); }
  [[nodiscard]] double data_wait_s() const override { return batches_->data_wait_s(); }
  [[nodiscard]] LoaderStats stats() const override { return batches_->stats(); }
  /// The state of `batches`, and the seed, so that a job that resumes repeats its random choices.
  [[nodiscard]] nlohmann::json state() const override;
  /// Continues from a result of state(). Also accepts a state of `batches`; the seed then stays as it is.
  void load_state(const nlohmann::json& state) override;

 private:
  std::shared_ptr<Iterator> batches_;
  data::MixOptions options_;
  std::int64_t num_classes_;
  std::uint64_t seed_;
};

}  // namespace mn

/// What a training loop draws its minibatches from.
#pragma once

#include <cstdint>
#include <optional>

#include <nlohmann/json_fwd.hpp>

#include <mn/loader/batch.hpp>

namespace mn {

/// What next() of a DataLoader has waited for so far, and what reading has cost.
struct LoaderStats {
  double queue_s = 0;      ///< seconds of waiting for a minibatch that had not been begun: all threads were busy, or
                           ///< LoaderOptions::prefetch_bytes had no room
  double storage_s = 0;    ///< … that was being read
  double transform_s = 0;  ///< … that was being decoded and augmented
  double copy_s = 0;       ///< … that was on its way to the device
  std::int64_t bytes = 0;  ///< bytes that this process has read of the dataset, or of copies of its files (--stage)
  std::int64_t opens = 0;  ///< files that it has opened for that
};

/// Minibatches, epoch after epoch. Every rank makes the same number of calls, though batches may differ in size. For
/// one of your own, create_iterator() (function_iterator.hpp) needs one function.
class Iterator {
 public:
  /// Iterators are held by pointers to this class.
  virtual ~Iterator() = default;

  /// The next minibatch; no value once at the end of each epoch, after which the next call begins a new epoch.
  [[nodiscard]] virtual std::optional<Batch> next() = 0;
  /// Epochs completed.
  [[nodiscard]] virtual std::int64_t epoch() const = 0;
  /// The same with the fraction of the current epoch.
  [[nodiscard]] virtual double epoch_detail() const = 0;
  /// Steps of one epoch, the same on all ranks.
  [[nodiscard]] virtual std::int64_t steps_per_epoch() const = 0;
  /// Position and order, enough to resume with any number of ranks.
  [[nodiscard]] virtual nlohmann::json state() const = 0;
  /// Continues from such a state.
  virtual void load_state(const nlohmann::json& state) = 0;
  /// Seconds that next() has waited for data so far.
  [[nodiscard]] virtual double data_wait_s() const = 0;
  /// For what, where the iterator knows.
  [[nodiscard]] virtual LoaderStats stats() const { return {}; }
  /// Between how many ranks the samples are divided, which a Trainer compares with its communicator; 0: unknown.
  [[nodiscard]] virtual int ranks() const { return 0; }
};

}  // namespace mn

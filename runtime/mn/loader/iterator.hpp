/// Sources of minibatches for a training loop.
#pragma once

#include <cstdint>
#include <optional>

#include <nlohmann/json_fwd.hpp>

#include <mn/loader/batch.hpp>

namespace mn {

/// Waiting times of a DataLoader's next(), and the cost of reading.
struct LoaderStats {
  double queue_s = 0;      ///< seconds until a minibatch was begun: all threads were busy, or
                           ///< LoaderOptions::prefetch_bytes had no room
  double storage_s = 0;    ///< … until it was read
  double transform_s = 0;  ///< … until it was decoded and augmented
  double copy_s = 0;       ///< … until it was on the device
  std::int64_t bytes = 0;  ///< bytes that this process read from the dataset, or from copies of its files (--stage)
  std::int64_t opens = 0;  ///< files that this process opened to read them
};

/// Minibatches, epoch after epoch. Every rank makes an equal number of calls, though batches may differ in size. For
/// your own iterator, create_iterator() (function_iterator.hpp) needs only a function.
class Iterator {
 public:
  /// Programs hold iterators by pointers to this class.
  virtual ~Iterator() = default;

  /// The next minibatch; no value once at the end of each epoch, after which the next call begins a new epoch.
  [[nodiscard]] virtual std::optional<Batch> next() = 0;
  /// Epochs completed.
  [[nodiscard]] virtual std::int64_t epoch() const = 0;
  /// Epochs completed, with the fraction of the current epoch.
  [[nodiscard]] virtual double epoch_detail() const = 0;
  /// Steps of one epoch, equal on all ranks.
  [[nodiscard]] virtual std::int64_t steps_per_epoch() const = 0;
  /// Position and order, enough to resume with any number of ranks.
  [[nodiscard]] virtual nlohmann::json state() const = 0;
  /// Continues from a state().
  virtual void load_state(const nlohmann::json& state) = 0;
  /// Seconds that next() has waited so far.
  [[nodiscard]] virtual double data_wait_s() const = 0;
  /// The causes of the waiting, if the iterator knows them.
  [[nodiscard]] virtual LoaderStats stats() const { return {}; }
  /// Number of ranks that share the samples, which a Trainer compares with its communicator; 0: unknown.
  [[nodiscard]] virtual int ranks() const { return 0; }
};

}  // namespace mn

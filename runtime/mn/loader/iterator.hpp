/// Sources of minibatches for a training loop.
#pragma once

#include <cstdint>
#include <optional>

#include <nlohmann/json_fwd.hpp>

#include <mn/loader/batch.hpp>

namespace mn {

/// Time that DataLoader::next() has waited, by the phase that a minibatch was in, and the cost of reading.
struct LoaderStats {
  double queue_s = 0;    ///< seconds until a minibatch was begun: all threads were busy, or prefetch_bytes had no room
  double storage_s = 0;  ///< seconds while the minibatch's samples were read
  double transform_s = 0;  ///< seconds while the minibatch was transformed (decoded, augmented)
  double copy_s = 0;       ///< seconds after the transform, until the minibatch was on the device
  std::int64_t bytes = 0;  ///< bytes that this process read from the dataset, or from copies of its files (--stage)
  std::int64_t opens = 0;  ///< number of files opened for these bytes
};

/// Numbers of samples, for reports. 0: unknown.
struct EpochSize {
  std::int64_t samples = 0;  ///< samples of an epoch, over all ranks
  std::int64_t batch = 0;    ///< samples of a full minibatch on one rank
};

/// Minibatches, epoch after epoch. All ranks must call next() the same number of times. The minibatches of ranks may
/// differ in size. To make your own iterator from a function, use create_iterator() (function_iterator.hpp).
class Iterator {
 public:
  /// Programs hold iterators by pointers to this class.
  virtual ~Iterator() = default;

  /// The next minibatch. At the end of each epoch, one call returns no value; the call after it begins a new epoch.
  [[nodiscard]] virtual std::optional<Batch> next() = 0;
  /// Epochs completed.
  [[nodiscard]] virtual std::int64_t epoch() const = 0;
  /// Epochs completed, plus the completed fraction of the current epoch.
  [[nodiscard]] virtual double epoch_detail() const = 0;
  /// Steps of one epoch, equal on all ranks.
  [[nodiscard]] virtual std::int64_t steps_per_epoch() const = 0;
  /// The samples of an epoch and of a minibatch; zeros if the iterator does not know them.
  [[nodiscard]] virtual EpochSize epoch_size() const { return {}; }
  /// The position and the order, from which load_state() continues with any number of ranks.
  [[nodiscard]] virtual nlohmann::json state() const = 0;
  /// Continues at the position of `state`, which state() returned.
  virtual void load_state(const nlohmann::json& state) = 0;
  /// Seconds that calls of next() have waited so far.
  [[nodiscard]] virtual double data_wait_s() const = 0;
  /// Causes of the waiting; all zeros if the iterator does not measure them.
  [[nodiscard]] virtual LoaderStats stats() const { return {}; }
  /// Number of ranks that share the samples; 0: unknown. A Trainer compares the number with its communicator's.
  [[nodiscard]] virtual int ranks() const { return 0; }
};

}  // namespace mn

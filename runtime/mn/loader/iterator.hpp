/// The interface of all sources of minibatches.
#pragma once

#include <cstdint>
#include <optional>

#include <nlohmann/json_fwd.hpp>

#include <mn/loader/batch.hpp>

namespace mn {

/// Why next() has waited, by phases of a minibatch (queue, reading, transform, copy), and what the reading has cost.
struct LoaderStats {
  double queue_s = 0;    ///< seconds until a minibatch was begun: all threads were busy, or prefetch_bytes had no room
  double storage_s = 0;  ///< seconds while the minibatch's samples were read
  double transform_s = 0;  ///< seconds while the minibatch was transformed (decoded, augmented)
  double copy_s = 0;       ///< seconds after the transform, until the minibatch was on the device
  std::int64_t bytes = 0;  ///< bytes that this process read from the dataset, or from copies of its files (--stage)
  std::int64_t opens = 0;  ///< number of files opened for these bytes
};

/// Sizes of an epoch and a minibatch, for reports. 0 means unknown.
struct EpochSize {
  std::int64_t samples = 0;  ///< samples of an epoch, over all ranks
  std::int64_t batch = 0;    ///< samples of a full minibatch on one rank
};

/// Minibatches, epoch after epoch. All ranks must call next() the same number of times. The minibatches of ranks may
/// differ in size. create_iterator() makes an iterator from a function (function_iterator.hpp).
class Iterator {
 public:
  /// The destructor is virtual, because programs hold iterators by pointers to this class.
  virtual ~Iterator() = default;

  /// Returns the next minibatch. At the end of each epoch, one call returns no value; the next call begins a new epoch.
  [[nodiscard]] virtual std::optional<Batch> next() = 0;
  /// How many epochs are completed.
  [[nodiscard]] virtual std::int64_t epoch() const = 0;
  /// Completed epochs plus the completed fraction of the current epoch.
  [[nodiscard]] virtual double epoch_detail() const = 0;
  /// Steps of an epoch, equal on all ranks.
  [[nodiscard]] virtual std::int64_t steps_per_epoch() const = 0;
  /// Sizes of an epoch and a minibatch. Zeros if the iterator does not know them.
  [[nodiscard]] virtual EpochSize epoch_size() const { return {}; }
  /// The iterator's position, and how the iterator orders the samples. load_state() can continue from it with any
  /// number of ranks, unless the iterator's own load_state() demands an equal number.
  [[nodiscard]] virtual nlohmann::json state() const = 0;
  /// Continues at the position in `state`, a result of state().
  virtual void load_state(const nlohmann::json& state) = 0;
  /// Seconds that all calls of next() together have waited.
  [[nodiscard]] virtual double data_wait_s() const = 0;
  /// Why next() has waited. Zeros if the iterator does not measure this.
  [[nodiscard]] virtual LoaderStats stats() const { return {}; }
  /// How many ranks share the samples; 0 means unknown. A Trainer compares it with its communicator's size.
  [[nodiscard]] virtual int ranks() const { return 0; }
};

}  // namespace mn

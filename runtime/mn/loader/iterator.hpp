/// What a training loop draws its minibatches from.
#pragma once

#include <cstdint>
#include <optional>

#include <nlohmann/json_fwd.hpp>

#include <mn/loader/batch.hpp>

namespace mn {

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
  /// Between how many ranks the samples are divided, which a Trainer compares with its communicator; 0: unknown.
  [[nodiscard]] virtual int ranks() const { return 0; }
};

}  // namespace mn

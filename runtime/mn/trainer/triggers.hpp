/// The intervals at which triggers fire: a number of epochs, iterations or seconds.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace mn {

/// What an Interval counts.
enum class IntervalUnit : std::uint8_t {
  kEpoch,      ///< passes over the training data; may be a fraction
  kIteration,  ///< iterations; a whole number
  kSecond      ///< seconds by rank 0's clock
};

/// The interval at which a trigger fires, for instance {1, "epoch"}, {100, "iteration"} or {60, "second"}.
struct Interval {
  double every = 1;                          ///< the period, in `unit`; > 0
  IntervalUnit unit = IntervalUnit::kEpoch;  ///< unit of the period

  /// Throws UsageError if `every` is not finite or not > 0, or if it counts iterations and is not a whole number.
  Interval(double every, IntervalUnit unit);
  /// Like the constructor above, with the unit as a text, as in Chainer: "epoch", "iteration" or "second". Throws
  /// UsageError for any other text.
  Interval(double every, std::string_view unit);

  /// Converts a text to an interval: "5e" means 5 epochs, "100i" means 100 iterations, and "60s" means 60 seconds. A
  /// number without a letter means epochs. For any other text, throws a UsageError that lists these forms.
  [[nodiscard]] static Interval parse(std::string_view text);
  /// Returns the interval as a text that parse() accepts.
  [[nodiscard]] std::string str() const;

  /// True if the trigger fires between `before` and `now`. Both are in this interval's unit. The trigger fires if a
  /// multiple of the period is greater than `before` and at most `now`.
  [[nodiscard]] bool passed(double before, double now) const;
  /// True if both intervals have the same period and unit.
  bool operator==(const Interval&) const = default;
};

}  // namespace mn

/// Intervals of triggers: a number of epochs, iterations or seconds.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace mn {

/// The unit of an Interval.
enum class IntervalUnit : std::uint8_t {
  kEpoch,      ///< passes over the training data, also fractions of one
  kIteration,  ///< steps, whole numbers
  kSecond      ///< seconds by rank 0's clock
};

/// A period of training, e.g. {1, "epoch"}, {100, "iteration"}, {60, "second"}.
struct Interval {
  double every = 1;                          ///< the period, > 0
  IntervalUnit unit = IntervalUnit::kEpoch;  ///< unit of the period

  /// Throws UsageError if `every` is not finite, is not > 0, or is not a whole number of iterations.
  Interval(double every, IntervalUnit unit);
  /// Chainer's form: the unit is "epoch", "iteration" or "second". Throws UsageError for other units.
  Interval(double every, std::string_view unit);

  /// "5e" means 5 epochs, "100i" means 100 iterations, "60s" means 60 seconds; a number without a letter means epochs.
  /// For any other text, throws a UsageError that lists the forms.
  [[nodiscard]] static Interval parse(std::string_view text);
  /// The interval as a text for parse().
  [[nodiscard]] std::string str() const;

  /// True if a multiple of the period lies in (before, now], both in this interval's unit.
  [[nodiscard]] bool passed(double before, double now) const;
  /// Equal periods in the same unit.
  bool operator==(const Interval&) const = default;
};

}  // namespace mn

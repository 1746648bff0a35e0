/// When something happens during training: every so many epochs, iterations or seconds.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace mn {

enum class IntervalUnit : std::uint8_t { kEpoch, kIteration, kSecond };

/// A period of training, e.g. {1, "epoch"}, {100, "iteration"}, {60, "second"}. Epochs may be fractions.
struct Interval {
  double every = 1;
  IntervalUnit unit = IntervalUnit::kEpoch;

  Interval(double every, IntervalUnit unit);
  /// Chainer's pairs. Throws UsageError for another unit, or unless every > 0 (a whole number of iterations).
  Interval(double every, std::string_view unit);

  /// "5e" epochs, "100i" iterations, "60s" seconds; without a letter, epochs. Throws UsageError that lists the forms.
  [[nodiscard]] static Interval parse(std::string_view text);
  /// The form that parse() takes.
  [[nodiscard]] std::string str() const;

  /// True if a multiple of the period lies in (before, now], both in this interval's unit.
  [[nodiscard]] bool passed(double before, double now) const;
  bool operator==(const Interval&) const = default;
};

}  // namespace mn

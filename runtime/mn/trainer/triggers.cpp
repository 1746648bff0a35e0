#include <mn/trainer/triggers.hpp>

#include <charconv>
#include <cmath>

#include <mn/core/error.hpp>
#include <mn/core/text.hpp>

namespace mn {
namespace {

constexpr std::string_view kLetters = "eis";
constexpr std::string_view kNames[] = {"epoch", "iteration", "second"};

IntervalUnit unit_named(std::string_view name) {
  for (int i = 0; i < 3; ++i) {
    if (name == kNames[i]) return static_cast<IntervalUnit>(i);
  }
  throw UsageError("\"" + std::string(name) + "\" is not a unit of an interval: use epoch, iteration or second");
}

[[noreturn]] void reject(std::string_view text) {
  throw UsageError(
      "\"" + std::string(text) +
      "\" is not an interval: use a number above 0 and e, i or s for epochs, iterations (whole) or seconds, " +
      "such as 5e, 100i, 60s");
}

}  // namespace

Interval::Interval(double every_, IntervalUnit unit_) : every(every_), unit(unit_) {
  const bool whole = unit != IntervalUnit::kIteration || every == std::floor(every);
  if (!(every > 0) || !std::isfinite(every) || !whole) reject(str());
}

Interval::Interval(double every_, std::string_view unit_) : Interval(every_, unit_named(unit_)) {}

Interval Interval::parse(std::string_view text) {
  std::string_view number = text;
  IntervalUnit unit = IntervalUnit::kEpoch;
  if (!text.empty() && kLetters.find(text.back()) != std::string_view::npos) {
    unit = static_cast<IntervalUnit>(kLetters.find(text.back()));
    number.remove_suffix(1);
  }
  const double every = parse_number<double>(number).value_or(0);
  const bool whole = unit != IntervalUnit::kIteration || every == std::floor(every);
  if (!(every > 0) || !std::isfinite(every) || !whole) reject(text);
  return {every, unit};
}

std::string Interval::str() const {
  char number[32];
  const auto [end, error] = std::to_chars(number, number + sizeof number, every);
  static_cast<void>(error);  // no error is possible: 32 characters hold any double
  return std::string(number, end) + kLetters[static_cast<std::size_t>(unit)];
}

bool Interval::passed(double before, double now) const {
  constexpr double kRounding = 1 + 1e-12;  // because in doubles, 3 · 0.1 is a little more than 0.3
  return std::floor(now / every * kRounding) > std::floor(before / every * kRounding);
}

}  // namespace mn

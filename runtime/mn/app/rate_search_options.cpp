#include <mn/app/rate_search_options.hpp>

#include <cmath>
#include <string_view>

#include <mn/core/error.hpp>
#include <mn/core/text.hpp>

namespace mn::app {

extensions::RateFinderOptions rate_search_options(const std::string& text) {
  const auto parts = split(text, ',');
  const auto read = [](std::string_view part, auto& number) {
    const auto value = parse_number<std::remove_reference_t<decltype(number)>>(part);
    if (value) number = *value;
    return value.has_value();
  };
  extensions::RateFinderOptions options;
  if (parts.size() == 3 && read(parts[0], options.first) && read(parts[1], options.last) &&
      read(parts[2], options.steps) && options.first > 0 && options.last > options.first &&
      std::isfinite(options.last) && options.steps >= extensions::RateFinderOptions::kLeastSteps) {
    return options;
  }
  throw UsageError("--find-lr \"" + text + "\" is not FIRST,LAST,STEPS with 0 < FIRST < LAST and at least " +
                   std::to_string(extensions::RateFinderOptions::kLeastSteps) + " steps, such as " + kRateSearch);
}

}  // namespace mn::app

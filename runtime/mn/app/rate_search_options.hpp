/// Parses the value of --find-lr.
#pragma once

#include <string>

#include <mn/trainer/extensions/rate_finder.hpp>

namespace mn::app {

/// The value of --find-lr if the option stands alone: a search from the rate 1e-7 to the rate 10 in at most 100
/// updates.
inline constexpr const char* kRateSearch = "1e-7,10,100";

/// Parses the value "FIRST,LAST,STEPS" of --find-lr. Throws UsageError if the text has another form.
[[nodiscard]] extensions::RateFinderOptions rate_search_options(const std::string& text);

}  // namespace mn::app

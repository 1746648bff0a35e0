/// The value of --find-lr.
#pragma once

#include <string>

#include <mn/trainer/extensions/rate_finder.hpp>

namespace mn::app {

/// The search of --find-lr without a value: from the rate 1e-7 to 10 in at most 100 updates.
inline constexpr const char* kRateSearch = "1e-7,10,100";

/// The options of --find-lr "FIRST,LAST,STEPS". Throws UsageError if the text is not of that form.
[[nodiscard]] extensions::RateFinderOptions rate_search_options(const std::string& text);

}  // namespace mn::app

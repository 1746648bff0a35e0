/// Searches for a learning rate in place of training, as --find-lr asks.
#pragma once

#include <string>

#include <mn/app/common_options.hpp>
#include <mn/trainer/extensions/rate_finder.hpp>
#include <mn/trainer/trainer.hpp>

namespace mn::app {

/// The value of --find-lr given alone: from the rate 1e-7 to the rate 10, in at most 100 updates.
inline constexpr const char* kRateSearch = "1e-7,10,100";

/// Parses the value "FIRST,LAST,STEPS" of --find-lr. Throws UsageError if the text has another form.
[[nodiscard]] extensions::RateFinderOptions rate_search_options(const std::string& text);

/// Collective. Runs the search; `trainer` must have the options of trainer_options(). Rank 0 prints the proposed rate
/// and writes report.html. Returns 0 after a proposal, 1 without one, or the status of an interrupted run().
[[nodiscard]] int find_rate(Trainer& trainer, const CommonOptions& common);

}  // namespace mn::app

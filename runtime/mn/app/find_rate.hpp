/// Searches for a learning rate in place of training, as --find-lr asks.
#pragma once

#include <string>

#include <mn/app/common_options.hpp>
#include <mn/trainer/extensions/rate_finder.hpp>
#include <mn/trainer/trainer.hpp>

namespace mn::app {

/// The value of --find-lr if the option is given without a value: a search from the rate 1e-7 to the rate 10, in at
/// most 100 updates.
inline constexpr const char* kRateSearch = "1e-7,10,100";

/// Parses the value "FIRST,LAST,STEPS" of --find-lr. Throws UsageError if the text has another form.
[[nodiscard]] extensions::RateFinderOptions rate_search_options(const std::string& text);

/// Runs the search of --find-lr. `trainer` must have the options of trainer_options(). Collective. Rank 0 prints the
/// proposed learning rate and writes report.html. Returns the exit status: 0 after a proposal, 1 if the loss did not
/// fall at any rate, or the status of run() if run() was interrupted.
[[nodiscard]] int find_rate(Trainer& trainer, const CommonOptions& common);

}  // namespace mn::app

/// Searches for a learning rate instead of training, as --find-lr asks.
#pragma once

#include <mn/app/setup.hpp>
#include <mn/trainer/trainer.hpp>

namespace mn::app {

/// Runs the search of --find-lr. `trainer` must have the options of trainer_options(). Collective. Rank 0 prints the
/// proposed learning rate and writes report.html. Returns the exit status: 0 after a proposal, 1 if the loss did not
/// fall at any rate, or the status of run() if run() was interrupted.
[[nodiscard]] int find_rate(Trainer& trainer, const CommonOptions& common);

}  // namespace mn::app

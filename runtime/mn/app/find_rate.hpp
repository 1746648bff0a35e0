/// --find-lr: a search for the learning rate in place of training.
#pragma once

#include <mn/app/setup.hpp>
#include <mn/trainer/trainer.hpp>

namespace mn::app {

/// Collective: runs the search of --find-lr in a trainer of trainer_options(). Rank 0 prints the proposal and writes
/// report.html. Returns the exit status: 0, or 1 if the loss fell at no rate.
[[nodiscard]] int find_rate(Trainer& trainer, const CommonOptions& common);

}  // namespace mn::app

/// --find-lr: a search for the learning rate instead of training.
#pragma once

#include <mn/app/setup.hpp>
#include <mn/trainer/trainer.hpp>

namespace mn::app {

/// Runs the search of --find-lr in `trainer`, which was made with trainer_options(). Collective. Rank 0 prints the
/// proposal and writes report.html. Returns the exit status: 1 if the loss did not fall at any rate, else 0.
[[nodiscard]] int find_rate(Trainer& trainer, const CommonOptions& common);

}  // namespace mn::app

/// Weights that a job begins with, validates or leaves.
#pragma once

#include <mn/app/reports.hpp>
#include <mn/app/setup.hpp>
#include <mn/checkpoint/safetensors.hpp>

namespace mn::app {

/// Collective: --initmodel, if it is given; rank 0 says what --initmodel-partial has left out.
void load_initial_weights(const CommonOptions& options, torch::nn::Module& model, Communicator& comm);

/// Collective, after training: OUT/model.safetensors, with averaged weights where there are some.
void save_weights(Trainer& trainer, const Reports& reports, const Metadata& metadata);

/// Collective: --evaluate. Loads the weights and prints the metrics on rank 0; returns the job's exit status.
[[nodiscard]] int evaluate_only(const CommonOptions& options, torch::nn::Module& model, Evaluator& evaluator,
                                Communicator& comm);

}  // namespace mn::app

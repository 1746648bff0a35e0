/// The weights of a job: --initmodel, --evaluate and OUT/model.safetensors.
#pragma once

#include <mn/app/setup.hpp>
#include <mn/checkpoint/safetensors.hpp>
#include <mn/trainer/evaluator.hpp>
#include <mn/trainer/extensions/weight_average.hpp>
#include <mn/trainer/trainer.hpp>

namespace mn::app {

/// Collective: loads --initmodel, if it is given; rank 0 logs which weights --initmodel-partial has left out.
void load_initial_weights(const CommonOptions& options, torch::nn::Module& model, Communicator& comm);

/// Collective, after training: writes OUT/model.safetensors, with the averaged weights unless `average` is null.
void save_weights(Trainer& trainer, extensions::WeightAverage* average, const Metadata& metadata);

/// Collective: loads the weights of --evaluate, and prints their metrics on rank 0. Returns the job's exit status.
[[nodiscard]] int evaluate_only(const CommonOptions& options, torch::nn::Module& model, Evaluator& evaluator,
                                Communicator& comm);

}  // namespace mn::app

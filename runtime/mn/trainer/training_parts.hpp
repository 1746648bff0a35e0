/// The parts of a training. Trainer, TrainingStep, TrainingState and Checkpointer share them. Internal.
#pragma once

#include <chrono>
#include <cstdint>
#include <string>
#include <vector>

#include <mn/comm/communicator.hpp>
#include <mn/core/json.hpp>
#include <mn/loader/iterator.hpp>
#include <mn/trainer/trainer_options.hpp>

namespace mn {

class ExtensionList;
class Observation;

/// How far a training has come.
struct TrainingCounters {
  using Clock = std::chrono::steady_clock;

  std::int64_t iteration = 0;              ///< iterations completed, including those before a resume
  std::int64_t epoch = 0;                  ///< epochs completed, including those before a resume
  double epoch_detail = 0;                 ///< completed epochs, plus the fraction of the current epoch
  double earlier_s = 0;                    ///< seconds of training before the resume
  Clock::time_point start = Clock::now();  ///< when run() began

  /// Returns how many seconds training has taken, including the time before a resume.
  [[nodiscard]] double elapsed_s() const {
    return earlier_s + std::chrono::duration<double>(Clock::now() - start).count();
  }
};

/// References to the parts of a Trainer and its counters, and the settings that the program had when the trainer was
/// made.
struct TrainingParts {
  Communicator& comm;
  const std::vector<NamedOptimizer>& optimizers;
  Iterator& iterator;
  torch::nn::Module& model;
  ExtensionList& extensions;
  Observation& observation;
  std::int64_t accumulate = 1;                        ///< number of minibatches in an iteration
  std::vector<nlohmann::json> initial_settings = {};  ///< settings of each optimizer when the trainer was made
  std::vector<std::string> initially_frozen = {};     ///< parameters that were frozen when the trainer was made
  TrainingCounters counters = {};

  /// Returns how many bytes this rank's optimizers have passed to collective calls so far.
  [[nodiscard]] std::uint64_t bytes_sent() const {
    std::uint64_t sum = 0;
    for (const NamedOptimizer& each : optimizers) sum += each.optimizer->bytes_sent();
    return sum;
  }
  /// Returns how many samples all ranks together have in an iteration. Null if the iterator does not know its batch
  /// size.
  [[nodiscard]] nlohmann::json samples_per_iteration() const;
};

}  // namespace mn

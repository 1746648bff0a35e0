/// Makes the optimizer and its learning rate over time from the options of updates.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include <mn/core/options.hpp>
#include <mn/optimizers/schedules.hpp>

namespace torch::nn {
class Module;
}
namespace torch::optim {
class Optimizer;
}

namespace mn::app {

/// The options of the command line about updates. A job may set other defaults.
struct UpdateOptions {
  std::string optimizer = "adam";      ///< sgd, adamw, lars, lamb
  double lr = 0;                       ///< learning rate; 0: default_rate()
  double momentum = 0.9;               ///< momentum of sgd and lars
  double beta1 = 0.9;                  ///< decay of the first moment: adam, adamw, lamb
  double beta2 = 0.999;                ///< decay of the second moment: adam, adamw, lamb
  double weight_decay = 0;             ///< decay of weights
  bool decay_all = false;              ///< also decay biases and normalizations, as torch's optimizers do
  std::vector<std::string> groups;     ///< texts of --group: see parse_groups()
  std::string schedule = "constant";   ///< step, cosine, onecycle, plateau
  double warmup = 0;                   ///< epochs in which the rate rises
  std::int64_t warmup_iterations = 0;  ///< updates in which the rate rises; 0: `warmup` decides
  double min_lr = 0;                   ///< last rate of the schedule cosine, and lowest rate of plateau
  double plateau_factor = 0.1;         ///< factor of the rate in the schedule plateau
  std::int64_t plateau_patience = 5;   ///< reports without a better value in the schedule plateau
  std::int64_t plateau_cooldown = 0;   ///< reports ignored after a fall of the rate in the schedule plateau
  /// The number of samples in an update for which `lr` is meant. If an update has more or fewer samples, the rate is
  /// scaled in proportion. 0: the rate is not scaled. No option of the command line sets this number.
  std::int64_t lr_samples = 0;
};

/// Declares the options of updates. `update` holds the defaults, and later the parsed values.
void add_update_options(Options& options, UpdateOptions& update);

/// Returns the learning rate that an optimizer gets if --lr is not given.
[[nodiscard]] double default_rate(const std::string& optimizer);

/// Makes the optimizer of --optimizer with learning rate `rate` and the groups of --group. Biases and the parameters of
/// normalizations (tensors of fewer than two dimensions) are decayed only with decay_all. Throws UsageError if a
/// --group matches no parameter.
[[nodiscard]] std::unique_ptr<torch::optim::Optimizer> make_optimizer(const UpdateOptions& update, double rate,
                                                                      const torch::nn::Module& model);

/// Returns for each parameter group of make_optimizer() the PATTERN of its --group; empty without a --group.
[[nodiscard]] std::vector<std::string> group_names(const UpdateOptions& update, const torch::nn::Module& model);

/// The length of a training. make_schedule() needs it.
struct TrainingSize {
  std::int64_t samples = 1;  ///< samples of an update, over all ranks
  std::int64_t updates = 1;  ///< updates of an epoch
  std::int64_t limit = 0;    ///< maximum of updates in the whole training; 0: no limit
  std::int64_t epochs = 1;   ///< epochs of the whole training
};

/// Makes the learning rate of each update from `rate`, the optimizer's own rate. For --schedule plateau the result is
/// constant after the warm-up; the extension Plateau lowers it.
[[nodiscard]] Schedule make_schedule(const UpdateOptions& update, double rate, const TrainingSize& size);

}  // namespace mn::app

/// Makes the optimizer and the schedule of its learning rate from command-line options.
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

/// The command-line options about the optimizer and its learning rate. A job may set other defaults.
struct UpdateOptions {
  std::string optimizer = "adam";      ///< sgd, adamw, lars, lamb
  double lr = 0;                       ///< learning rate; 0: the value of default_rate()
  double momentum = 0.9;               ///< momentum of sgd and lars
  double beta1 = 0.9;                  ///< decay of the first moment: adam, adamw, lamb
  double beta2 = 0.999;                ///< decay of the second moment: adam, adamw, lamb
  double eps = 1e-8;                   ///< added to the root of the second moment: adam, adamw, lamb
  double weight_decay = 0;             ///< decay of weights
  bool decay_all = false;              ///< also decay biases and normalizations, as torch's optimizers do
  std::vector<std::string> groups;     ///< texts of --group: see parse_groups()
  std::string schedule = "constant";   ///< step, linear, cosine, wsd, onecycle, plateau
  double warmup = 0;                   ///< epochs in which the rate rises
  std::int64_t warmup_iterations = 0;  ///< updates in which the rate rises; 0: `warmup` decides
  double min_lr = 0;                   ///< last rate of the schedules linear, cosine and wsd, and lowest of plateau
  double cooldown = 0.2;               ///< part of the updates in which the rate of the schedule wsd falls
  double plateau_factor = 0.1;         ///< factor of the rate in the schedule plateau
  std::int64_t plateau_patience = 5;   ///< reports without a better value in the schedule plateau
  std::int64_t plateau_cooldown = 0;   ///< reports that are ignored after a fall of the rate in the schedule plateau
  /// The number of samples in an update for which `lr` is meant. If an update has more or fewer samples, the learning
  /// rate is scaled in proportion. If the number is 0, the rate is not scaled. No command-line option sets this number;
  /// a job sets it.
  std::int64_t lr_samples = 0;
};

/// Declares the options. `update` holds the defaults now, and the parsed values later.
void add_update_options(Options& options, UpdateOptions& update);

/// Returns the learning rate that an optimizer gets if --lr is not given.
[[nodiscard]] double default_rate(const std::string& optimizer);

/// Makes the optimizer of --optimizer with the learning rate `rate` and the groups of --group. Biases and the
/// parameters of normalizations, that is, tensors of fewer than two dimensions, get weight decay only with --decay-all.
/// Throws UsageError if a --group matches no parameter.
[[nodiscard]] std::unique_ptr<torch::optim::Optimizer> make_optimizer(const UpdateOptions& update, double rate,
                                                                      const torch::nn::Module& model);

/// Returns, for each parameter group of make_optimizer(), the PATTERN of its --group. The text is empty for a parameter
/// group that belongs to no --group.
[[nodiscard]] std::vector<std::string> group_names(const UpdateOptions& update, const torch::nn::Module& model);

/// The length of a training, which make_schedule() needs.
struct TrainingSize {
  std::int64_t samples = 1;  ///< samples in an update, over all ranks
  std::int64_t updates = 1;  ///< updates in an epoch
  std::int64_t limit = 0;    ///< largest number of updates in the whole training; 0: no limit
  std::int64_t epochs = 1;   ///< epochs in the whole training
};

/// Returns the schedule that gives the learning rate of each update. `rate` is the rate that the optimizer has. For
/// --schedule plateau, the schedule is constant after the warm-up, and the extension Plateau lowers its rates during
/// training.
[[nodiscard]] Schedule make_schedule(const UpdateOptions& update, double rate, const TrainingSize& size);

}  // namespace mn::app

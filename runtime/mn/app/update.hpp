/// How the jobs update parameters: the optimizer and its learning rate over time.
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

/// --optimizer and what goes with it; a job may have other defaults.
struct UpdateOptions {
  std::string optimizer = "adam";      ///< sgd, adamw, lars, lamb
  double lr = 0;                       ///< learning rate; 0: default_rate()
  double momentum = 0.9;               ///< momentum of sgd and lars
  double beta1 = 0.9;                  ///< decay of the first moment: adam, adamw, lamb
  double beta2 = 0.999;                ///< likewise
  double weight_decay = 0;             ///< decay of weights; see decay_all
  std::string schedule = "constant";   ///< step, cosine, onecycle, plateau
  double warmup = 0;                   ///< epochs in which the rate rises
  std::int64_t warmup_iterations = 0;  ///< updates in which it does, if not 0
  double min_lr = 0;                   ///< at the end of the schedule cosine
  double plateau_factor = 0.1;         ///< by which the schedule plateau multiplies the rate
  std::int64_t plateau_patience = 5;   ///< reports, likewise
  /// Not an option: the rate is for so many samples in an update, and in proportion for others; 0: it is as given.
  std::int64_t lr_samples = 0;
  /// Not an option: biases and normalizations are decayed too, as torch's optimizers do it.
  bool decay_all = false;
};

/// Declares them; the values in `update` are the defaults.
void add_update_options(Options& options, UpdateOptions& update);

/// A rate for optimizers without --lr.
[[nodiscard]] double default_rate(const std::string& optimizer);

/// The optimizer with `rate`. Biases and the parameters of normalizations (fewer than two dimensions) are not decayed,
/// unless the job wants that.
[[nodiscard]] std::unique_ptr<torch::optim::Optimizer> make_optimizer(const UpdateOptions& update, double rate,
                                                                      const torch::nn::Module& model);

/// What a schedule is made for.
struct TrainingSize {
  std::int64_t samples = 1;  ///< samples of an update, over all ranks
  std::int64_t updates = 1;  ///< updates of an epoch
  std::int64_t limit = 0;    ///< most updates of the whole training; 0: no limit
  std::int64_t epochs = 1;   ///< epochs of the whole training
};

/// The rate of each update, of an optimizer made with `rate`; "plateau" is constant here.
[[nodiscard]] Schedule make_schedule(const UpdateOptions& update, double rate, const TrainingSize& size);

}  // namespace mn::app

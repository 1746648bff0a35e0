#include <mn/app/find_rate.hpp>

#include <cmath>
#include <iostream>
#include <memory>

#include <mn/app/group_schedules.hpp>
#include <mn/app/record_run.hpp>
#include <mn/core/classic_stream.hpp>
#include <mn/core/error.hpp>
#include <mn/core/text.hpp>
#include <mn/trainer/extensions/log_report.hpp>
#include <mn/trainer/extensions/progress_bar.hpp>
#include <mn/trainer/extensions/run_record.hpp>

namespace mn::app {
namespace {

namespace ext = mn::extensions;

/// Returns the value for --lr with which the first group of parameters gets the learning rate `found`.
double option_for(double found, Trainer& trainer, const CommonOptions& common) {
  MultiNodeOptimizer& optimizer = trainer.optimizer();
  const double first = optimizer.param_groups().front().options().get_lr();
  const double unscaled = first > 0 ? found / first * base_rate(optimizer, parse_groups(common.groups)) : found;
  if (common.lr_samples == 0) return unscaled;
  const std::int64_t samples = common.batchsize * common.accumulate * trainer.communicator().size();  // in an update
  return scale_learning_rate(unscaled, common.lr_samples, samples);
}

}  // namespace

ext::RateFinderOptions rate_search_options(const std::string& text) {
  const auto parts = split(text, ',');
  if (parts.size() == 3) {
    const auto first = parse_number<double>(parts[0]), last = parse_number<double>(parts[1]);
    const auto steps = parse_number<std::int64_t>(parts[2]);
    const bool is_rising = first && last && *first > 0 && *last > *first && std::isfinite(*last);
    if (is_rising && steps && *steps >= ext::RateFinderOptions::kLeastSteps)
      return {.first = *first, .last = *last, .steps = *steps};
  }
  throw UsageError("--find-lr \"" + text + "\" is not FIRST,LAST,STEPS with 0 < FIRST < LAST and at least " +
                   std::to_string(ext::RateFinderOptions::kLeastSteps) + " steps, such as " + kRateSearch);
}

int find_rate(Trainer& trainer, const CommonOptions& common) {
  const Interval always(1, IntervalUnit::kIteration);
  const auto& log = trainer.extend(std::make_unique<ext::LogReport>(), {.trigger = always});
  const auto& finder = trainer.extend(std::make_unique<ext::RateFinder>(log, rate_search_options(common.find_lr)));
  trainer.extend(std::make_unique<ext::RunRecord>(log));
  trainer.extend(std::make_unique<ext::ProgressBar>());
  if (const int status = trainer.run(); status != 0) return status;
  write_report(trainer);
  const auto found = finder.proposal();
  if (trainer.is_root() && found) {
    OutText line;
    line.precision(3);
    line << "proposed learning rate: --lr " << option_for(*found, trainer, common) << '\n';
    std::cout << line.str() << std::flush;
  }
  return found ? 0 : 1;
}

}  // namespace mn::app

#include <mn/app/report_extensions.hpp>

#include <fstream>
#include <functional>
#include <map>
#include <utility>

#include <mn/app/group_options.hpp>
#include <mn/app/group_schedules.hpp>
#include <mn/app/record_run.hpp>
#include <mn/app/setup.hpp>
#include <mn/core/classic_stream.hpp>
#include <mn/trainer/extensions/dump_graph.hpp>
#include <mn/trainer/extensions/early_stopping.hpp>
#include <mn/trainer/extensions/learning_rate.hpp>
#include <mn/trainer/extensions/log_report.hpp>
#include <mn/trainer/extensions/memory_report.hpp>
#include <mn/trainer/extensions/norms.hpp>
#include <mn/trainer/extensions/plateau.hpp>
#include <mn/trainer/extensions/profile.hpp>
#include <mn/trainer/extensions/snapshot.hpp>
#include <mn/trainer/extensions/tensorboard.hpp>
#include <mn/trainer/extensions/validation.hpp>
#include <mn/trainer/extensions/weight_histograms.hpp>

namespace mn::app {
namespace {

namespace ext = mn::extensions;

ext::Monitor monitor_of(const CommonOptions& options, const ext::LogReport& log, double min_delta) {
  return ext::Monitor(log, options.monitor, monitored_direction(options), min_delta);
}

void add_learning_rate(Trainer& trainer, const CommonOptions& options, const ext::LogReport& log) {
  const double rate = base_rate(trainer.optimizer(), parse_groups(options.groups));
  const TrainingSize size{.samples = options.batchsize * options.accumulate * trainer.communicator().size(),
                          .updates = trainer.iterations_per_epoch(),
                          .limit = options.iterations,
                          .epochs = options.epoch};
  Schedule schedule = make_schedule(options, rate, size);
  std::function<Schedule(Schedule)> lowered;
  // Plateau multiplies the rates, so the warm-up of the schedule still applies.
  if (options.schedule == "plateau") {
    const ext::PlateauOptions how{.factor = options.plateau_factor,
                                  .patience = options.plateau_patience,
                                  .cooldown = options.plateau_cooldown,
                                  .min_rate = options.min_lr};
    const auto& plateau =
        trainer.extend(std::make_unique<ext::Plateau>(monitor_of(options, log, options.min_delta), how));
    lowered = [&plateau](Schedule before) { return plateau.schedule(std::move(before)); };
  }
  if (!options.groups.empty()) {
    trainer.extend(std::make_unique<ext::LearningRate>(
        group_schedules(options, group_names(options, trainer.model()), schedule, rate, size, lowered)));
    return;
  }
  // All groups follow one schedule, and keep the proportions of the rates that the program gave them.
  trainer.extend(std::make_unique<ext::LearningRate>(lowered ? lowered(std::move(schedule)) : std::move(schedule)));
}

void add_checkpoints(Trainer& trainer, const CommonOptions& options, const ext::LogReport& log) {
  if (options.early_stop > 0) {
    auto monitor = monitor_of(options, log, options.min_delta);
    trainer.extend(std::make_unique<ext::EarlyStopping>(std::move(monitor), options.early_stop));
  }
  const auto keep = static_cast<std::size_t>(options.keep);
  if (options.keep_best) trainer.extend(std::make_unique<ext::BestSnapshot>(monitor_of(options, log, 0), keep));
  if (options.checkpoint_every != "none") {
    const bool continuous = options.checkpoint_every == kContinuousCheckpoints;
    // A continuous Snapshot checks in each iteration whether the previous save has ended.
    const Interval each(1, IntervalUnit::kIteration);
    trainer.extend(std::make_unique<ext::Snapshot>(keep, continuous),
                   {.trigger = continuous ? each : Interval::parse(options.checkpoint_every)});
  }
}

std::string options_as_markdown(const Trainer& trainer) {
  std::string text;
  std::ifstream file(trainer.is_root() ? trainer.out() / "config.ini" : "");
  for (std::string line; std::getline(file, line);) text += "    " + line + "\n";  // four blanks: verbatim in Markdown
  return text;
}

/// Returns the values that the job uses for options such as "auto", by the option's name.
std::map<std::string, std::string> used_values(const Trainer& trainer) {
  OutText rate;
  rate << trainer.optimizer().param_groups().front().options().get_lr();
  const Communicator& comm = trainer.communicator();
  return {{"lr", rate.str()}, {"communicator", comm.name()}, {"device", comm.device().str()}};
}

}  // namespace

Interval report_period(const CommonOptions& options, Interval usual) {
  return options.one_batch ? Interval(1, IntervalUnit::kIteration) : usual;
}

Interval validation_period(const CommonOptions& options, Interval report) {
  return options.val_every.empty() || options.one_batch ? report : Interval::parse(options.val_every);
}

ext::WeightAverage* add_reports(Trainer& trainer, const CommonOptions& options, std::vector<NamedEvaluator> evaluators,
                                RecordOptions record) {
  const Interval period = record.period;
  record.details.used = used_values(trainer);
  for (const NamedEvaluator& each : evaluators) record.validations.push_back(each.name);
  ext::WeightAverage* average = nullptr;
  if (options.ema > 0) {
    average = &trainer.extend(std::make_unique<ext::WeightAverage>(options.ema));
    for (auto& [name, evaluator] : evaluators) {
      evaluator = ext::create_averaged_evaluator(std::move(evaluator), *average);
    }
  }
  if (options.norms > 0) trainer.extend(std::make_unique<ext::Norms>(options.norms));
  trainer.extend(std::make_unique<ext::DumpGraph>());
  const Interval validation = validation_period(options, period);
  const ext::Validation* validated = nullptr;  // the validation that runs last
  for (auto& [name, evaluator] : evaluators) {
    validated = &trainer.extend(std::make_unique<ext::Validation>(std::move(evaluator), name), {.trigger = validation});
  }
  auto& log = record_run(trainer, std::move(record));
  const Interval always(1, IntervalUnit::kIteration);  // for extensions that look for a new report in every iteration
  if (validated != nullptr) {  // a report follows each validation, so that --best saves the weights that were validated
    trainer.extend("report of the validation", always,
                   [&log, validated, seen = std::int64_t{0}](Trainer& each) mutable {
                     if (std::exchange(seen, validated->runs()) != validated->runs()) log.run(each);
                   });
  }
  if (options.tensorboard) {
    auto& board =
        trainer.extend(std::make_unique<ext::TensorBoard>(log, options_as_markdown(trainer)), {.trigger = always});
    trainer.extend(std::make_unique<ext::WeightHistograms>(board));
  }
  if (options.show_memory) trainer.extend(std::make_unique<ext::MemoryReport>(autocast_type(options.precision)));
  if (options.profile) trainer.extend(std::make_unique<ext::Profile>());
  add_learning_rate(trainer, options, log);
  add_checkpoints(trainer, options, log);
  return average;
}

}  // namespace mn::app

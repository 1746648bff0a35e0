#include <mn/app/training.hpp>

#include <algorithm>
#include <cstdio>
#include <exception>
#include <iostream>
#include <optional>

#include <torch/nn/module.h>

#include <mn/app/find_rate.hpp>
#include <mn/app/group_options.hpp>
#include <mn/app/memory_shortage.hpp>
#include <mn/app/monitor_check.hpp>
#include <mn/app/options_record.hpp>
#include <mn/app/record_run.hpp>
#include <mn/app/report_extensions.hpp>
#include <mn/checkpoint/checkpoint.hpp>
#include <mn/checkpoint/format/checkpoint_folder.hpp>
#include <mn/comm/on_root.hpp>
#include <mn/core/classic_stream.hpp>
#include <mn/core/error.hpp>
#include <mn/core/log.hpp>
#include <mn/job/failure.hpp>
#include <mn/job/job.hpp>
#include <mn/nn/offloaded_activations.hpp>
#include <mn/sharding/pieces.hpp>
#include <mn/sharding/shard_pass.hpp>
#include <mn/sharding/sharded_parameters.hpp>
#include <mn/tensor/autocast.hpp>
#include <mn/tensor/modules.hpp>
#include <mn/tensor/tensor.hpp>
#include <mn/trainer/extensions/allreduce_persistent.hpp>
#include <mn/trainer/extensions/freezing.hpp>

namespace mn::app {
namespace {

void print_banner(const CommonOptions& common, const Training& training, const Communicator& comm) {
  const std::string rule(42, '=');
  std::cout << rule << "\nNum process (COMM_WORLD): " << comm.size() << "\nUsing "
            << (comm.device().type == DeviceType::kCuda ? "GPUs" : "CPUs") << "\nUsing " << comm.name()
            << " communicator\n";
  for (const std::string& line : training.banner) std::cout << line << '\n';
  if (uses_monitor(common)) {
    std::cout << "Monitor: " << common.monitor << ", "
              << (monitored_direction(common) == extensions::Better::kLower ? "lower" : "higher") << " is better\n";
  }
  std::cout << "Num Minibatch-size: " << common.batchsize << "\nNum epoch: " << common.epoch << '\n'
            << rule << std::endl;
}

/// The first set is the main set, whose values are "validation/main/…" in --monitor.
std::vector<ValidationSet> sets_of(const Training& training) {
  std::vector<ValidationSet> sets;
  if (training.validation) sets.push_back({"", training.validation});
  sets.insert(sets.end(), training.validations.begin(), training.validations.end());
  return sets;
}

std::string name_of(const ValidationSet& set) { return set.name.empty() ? "validation" : "validation/" + set.name; }

/// If the main set has a name, --monitor gets the name under which the log has the main set's value.
void resolve_monitor(CommonOptions& common, const Training& training) {
  const std::vector<ValidationSet> sets = sets_of(training);
  constexpr std::string_view kMain = "validation/main/";
  if (sets.empty() || !common.monitor.starts_with(kMain)) return;
  common.monitor = name_of(sets.front()) + "/main/" + common.monitor.substr(kMain.size());
}

void check_training(const CommonOptions& common, const Training& training) {
  if (!training.model) throw ArgumentError("a training needs a model");
  if (training.instead) return;
  if (!training.loss) throw ArgumentError("a training needs a loss");
  const std::vector<at::Tensor> parameters = training.model->parameters();
  if (common.evaluate.empty() && std::ranges::none_of(parameters, &at::Tensor::requires_grad)) {
    throw UsageError(parameters.empty() ? "the model has no parameters, so there is nothing to train"
                                        : "all parameters of the model are frozen (requires_grad is false): there is "
                                          "nothing to train");
  }
  if (!sets_of(training).empty()) return;
  if (!common.val_every.empty()) throw UsageError("--val-every: there is nothing to validate on");
  if (!common.evaluate.empty()) throw UsageError("--evaluate: there is nothing to validate on");
  if (common.monitor.starts_with("validation/") && uses_monitor(common)) {
    throw UsageError("--monitor " + common.monitor + ": there is nothing to validate on; give --monitor main/loss");
  }
}

/// The evaluator takes at most `most` minibatches of this rank; 0: all.
std::unique_ptr<Evaluator> make_local_evaluator(const CommonOptions& common, const Training& training,
                                                const ValidationSet& set, const Communicator& comm, std::int64_t most) {
  auto evaluate_batch = [&common, &training, device = comm.device()](const Batch& batch, Summary& report) {
    const AutocastScope autocast(autocast_type(common.precision), device);
    if (training.evaluate) return training.evaluate(batch, report);
    const Loss loss = training.loss(batch, report);
    report.add("loss", loss.value, loss.weight_in(batch));
  };
  return create_evaluator(set.batches, training.model, std::move(evaluate_batch), most);
}

std::vector<NamedEvaluator> make_evaluators(const CommonOptions& common, const Training& training,
                                            const std::shared_ptr<Communicator>& comm) {
  std::vector<NamedEvaluator> evaluators;
  for (const ValidationSet& set : sets_of(training)) {
    auto local = make_local_evaluator(common, training, set, *comm, common.one_batch ? 1 : 0);
    evaluators.push_back({name_of(set), create_multi_node_evaluator(std::move(local), comm)});
  }
  return evaluators;
}

/// Checks only "validation/…" and "main/…", because all other values may come from an extension of the job.
void check_monitor(Trainer& trainer, const CommonOptions& common, const Training& training) {
  if (!uses_monitor(common)) return;
  const std::vector<ValidationSet> sets = sets_of(training);
  const bool validated = common.monitor.starts_with("validation/");
  if (validated && training.evaluate) {
    const auto monitored = std::ranges::find_if(
        sets, [&](const ValidationSet& set) { return common.monitor.starts_with(name_of(set) + "/main/"); });
    const ValidationSet& set = monitored == sets.end() ? sets.front() : *monitored;
    const auto first = make_local_evaluator(common, training, set, trainer.communicator(), 1);
    check_validated_value(common, name_of(set), *first, *set.batches, trainer.communicator());
  } else if (validated || common.monitor.starts_with("main/")) {
    std::vector<std::string> validations;
    for (const ValidationSet& set : sets) {
      if (!training.evaluate) validations.push_back(name_of(set));
    }
    check_reported_value(common, std::move(validations), trainer);
  }
}

/// Running statistics differ from rank to rank, so validations and checkpoints of a fixed period need their averages.
void add_buffer_averages(Trainer& trainer, const CommonOptions& common, const Training& training, Interval period) {
  const auto& also = training.averaged_buffers;
  if (running_statistics(trainer.model()).empty() && also.empty()) return;
  trainer.extend(std::make_unique<extensions::AllreducePersistent>(also),
                 {.trigger = validation_period(common, period)});
  if (common.checkpoint_every == "none" || common.checkpoint_every == kContinuousCheckpoints) return;
  trainer.extend(std::make_unique<extensions::AllreducePersistent>(also),
                 {.trigger = Interval::parse(common.checkpoint_every), .name = "AllreducePersistent/snapshot"});
}

/// Collective.
void load_weights(const std::string& file, const Training& training, Communicator& comm) {
  training.load ? training.load(file) : load_model(file, *training.model, comm, {}, training.layout);
}

/// Collective. With --initmodel-partial, rank 0 logs which weights were not loaded.
void load_initial_weights(const CommonOptions& options, const Training& training, Communicator& comm) {
  if (options.initmodel.empty()) return;
  if (!options.initmodel_partial) return load_weights(options.initmodel, training, comm);
  const LoadReport report = load_matching(options.initmodel, *training.model, comm, training.layout);
  if (comm.rank() == 0) log_info(options.initmodel + ": " + to_string(report));
}

/// A parameter in pieces stays in pieces, which are on the device: to() would gather all parameters.
void move_to_device(torch::nn::Module& model, c10::Device device) {
  const std::vector<at::Tensor> parameters = parameters_of(model);
  if (std::ranges::none_of(parameters, is_in_pieces)) return model.to(device);
  for (auto& [name, tensor] : named_tensors(model)) {
    if (!is_in_pieces(tensor)) at::Tensor(tensor).set_data(tensor.to(device));
  }
}

/// Collective. Writes the averaged weights if `average` is not null.
void save_weights(Trainer& trainer, extensions::WeightAverage* average, const Training& training) {
  std::optional<extensions::AveragedWeights> averaged;
  if (average != nullptr) {
    averaged.emplace(*average);
    average->average_statistics();
  }
  if (training.finish) training.finish();
  if (training.writes_model)
    save_model(trainer.out() / "model.safetensors", trainer.model(), trainer.communicator(), training.metadata);
  if (training.save) training.save();
}

/// Collective. With --shard parameters, the ranks divide the model, and operators gather parameters while a ShardPass
/// lives. Otherwise returns null.
std::unique_ptr<ShardedParameters> shard_without_training(const CommonOptions& common, const torch::nn::Module& model,
                                                          const std::shared_ptr<Communicator>& comm) {
  if (parse_shard(common.shard) != Shard::kParameters) return nullptr;
  name_tensors(model);
  return std::make_unique<ShardedParameters>(differentiable(parameters_of(model)), comm,
                                             ShardOptions{.what = Shard::kParameters});
}

/// Collective. Rank 0 prints the metrics.
int evaluate_only(const CommonOptions& options, const Training& training, const std::vector<NamedEvaluator>& evaluators,
                  const std::shared_ptr<Communicator>& comm) {
  torch::nn::Module& model = *training.model;
  load_weights(options.evaluate, training, *comm);
  if (training.finish) training.finish();
  if (training.save) training.save();
  const auto shards = shard_without_training(options, model, comm);
  for (const auto& [name, evaluator] : evaluators) {
    for (const auto& [metric, value] : evaluator->evaluate()) {
      OutText line;
      line << name << "/main/" << metric << ' ' << value << '\n';
      if (comm->rank() == 0) std::fputs(line.str().c_str(), stdout);
    }
  }
  std::fflush(stdout);
  return 0;
}

/// If the last checkpoint or the weights cannot be written, throws only after all other files are written.
int train(Trainer& trainer, const Training& training, extensions::WeightAverage* average) {
  int status = 0;
  std::exception_ptr unsaved;
  try {
    status = trainer.run();
  } catch (const SaveError&) {
    if (trainer.end_reason().empty()) throw;  // the error came before training had ended
    unsaved = std::current_exception();
  }
  if (status == 0) {
    average_buffers(*training.model, trainer.communicator(), training.averaged_buffers);
    try {
      save_weights(trainer, average, training);
    } catch (const DataError&) {
      if (!unsaved) unsaved = std::current_exception();
    }
  }
  write_report(trainer);  // even after an interruption; last, because the weights need the disk's room more
  if (unsaved) std::rethrow_exception(unsaved);
  return status;
}

/// Called before the optimizer is made, which then needs no memory for gradients of frozen parameters. Null if no
/// --group has "freeze".
std::unique_ptr<extensions::Freezing> freeze_groups(const CommonOptions& common, torch::nn::Module& model) {
  std::vector<extensions::FrozenEpochs> frozen = frozen_epochs(parse_groups(common.groups));
  if (frozen.empty()) return nullptr;
  auto freezing = std::make_unique<extensions::Freezing>(std::move(frozen));
  try {
    static_cast<void>(freezing->apply(model, 0));
  } catch (const ArgumentError& error) {
    throw UsageError(std::string("--group: ") + error.what());
  }
  return freezing;
}

int run_trainer(const Options& options, const CommonOptions& common, Training& training,
                std::vector<NamedEvaluator> evaluators, const std::shared_ptr<Communicator>& comm) {
  const OptimizerOptions how = optimizer_options(common);
  auto freezing = freeze_groups(common, *training.model);
  const double given = common.lr > 0 ? common.lr : default_rate(common.optimizer);
  const auto optimizer =
      create_optimizer(common, training.rate > 0 ? training.rate : given, *training.model, comm, how);
  const Device offloaded_device = parse_offload(common.offload).activations ? comm->device() : Device();
  const auto compute_loss = [&](const Batch& batch, Summary& report) {
    const AutocastScope autocast(autocast_type(common.precision), comm->device());
    const OffloadedActivations offloaded(*training.model, offloaded_device);
    return training.loss(batch, report);
  };
  Trainer trainer(comm, optimizer, training.train, training.model, compute_loss, trainer_options(common, how));
  trainer.extend(std::make_unique<OptionsRecord>(options)).write(trainer);
  if (common.one_batch)
    on_root<DataError>(
        *comm, [&] { remove_old_checkpoints(trainer.out(), 0); }, true);
  const Interval period = report_period(common, training.report_every);
  add_buffer_averages(trainer, common, training, period);
  if (!training.metadata.empty()) trainer.extend(std::make_unique<MetadataRecord>(training.metadata));
  if (freezing) trainer.extend(std::move(freezing));
  for (ExtensionToAdd& each : training.extensions) trainer.extend(std::move(each.extension), std::move(each.options));
  if (!common.find_lr.empty()) {
    if (comm->rank() == 0) print_banner(common, training, *comm);
    return find_rate(trainer, common);
  }
  check_monitor(trainer, common, training);
  extensions::WeightAverage* average =
      add_reports(trainer, common, std::move(evaluators),
                  {.period = period,
                   .metric = training.metric,
                   .details = {.unit = training.unit, .units_per_sample = training.units_per_sample},
                   .derive = training.derive});
  if (!common.resume.empty() && !common.one_batch) trainer.resume(common.resume);

  if (comm->rank() == 0) print_banner(common, training, *comm);
  try {
    return explain_shortage(
        common, *comm, [&] { return training.model.get(); }, [&] { return train(trainer, training, average); });
  } catch (...) {
    end_for_error(std::current_exception());  // here, while the extension lives that notes the end in OUT
  }
}

}  // namespace

int run_training(int argc, char** argv, Options& options, CommonOptions& common, const Build& build) {
  add_common_options(options, common);
  return run_job(argc, argv, [&](Job& job) {
    if (!parse_options(options, argc, argv, job.rank())) return 0;
    const auto comm = set_up(common);
    Training training;
    const auto work = [&] {
      training = build(comm);
      resolve_monitor(common, training);
      check_training(common, training);
      load_initial_weights(common, training, *comm);
      move_to_device(*training.model, comm->device());
      if (training.instead) {
        const auto shards = shard_without_training(common, *training.model, comm);
        const ShardPass pass(*training.model);  // ranks that end early take part in gathers
        return training.instead();
      }
      auto evaluators = make_evaluators(common, training, comm);
      if (!common.evaluate.empty()) return evaluate_only(common, training, evaluators, comm);
      return run_trainer(options, common, training, std::move(evaluators), comm);
    };
    return explain_shortage(
        common, *comm, [&] { return training.model.get(); }, work);
  });
}

}  // namespace mn::app

#include <mn/app/setup.hpp>

#include <filesystem>
#include <iostream>

#include <ATen/Context.h>

#include <mn/app/find_rate.hpp>
#include <mn/app/versions.hpp>
#include <mn/comm/calls/flight_recorder.hpp>
#include <mn/core/activity.hpp>
#include <mn/core/environment.hpp>
#include <mn/core/error.hpp>
#include <mn/core/log.hpp>
#include <mn/core/text.hpp>
#include <mn/core/trace.hpp>
#include <mn/optimizers/master_weights.hpp>
#include <mn/tensor/random_state.hpp>
#include <mn/tensor/tensor.hpp>
#include <mn/trainer/extensions/monitor.hpp>
#include <mn/trainer/extensions/weight_average.hpp>
#include <mn/trainer/triggers.hpp>

namespace mn::app {
namespace {

void add_communication_options(Options& options, CommonOptions& common) {
  options.add("overlap", common.overlap, "on|off",
              "reduce gradients while backward computes; auto: between nodes and on GPUs", {"auto", "on", "off"});
  options.set_bare("overlap", "on");
  options.add("overlap-ctas", common.overlap_ctas,
              "most thread blocks of a GPU that NCCL takes while backward computes; 0: NCCL chooses", 0, 1024);
  options.add_flag("double-buffering", common.double_buffering,
                   "reduce the gradients of one step while the next step computes; updates are one step stale");
  options.add("shard", common.shard, "PART",
              "what each rank holds only a share of: none, optimizer (its state), gradients (these, too) or parameters "
              "(all three; ranks gather parameters before use, with --precision bf16 and fp16 most of them in 16 bits)",
              shard_names());
  options.add("shard-group", common.shard_group, "all|node|N",
              "which ranks share with --shard: all, those of each node, or each N consecutive ranks; every group then "
              "holds everything once");
  options.add_check([&common] { static_cast<void>(parse_shard_group(common.shard_group)); });
  options.add("offload", common.offload, "PART",
              "what GPUs keep in the host's memory: none, activations (between forward and backward), optimizer (its "
              "state and --shard's shares of parameters, which the host then updates) or activations,optimizer");
  options.add_check([&common] {
    if (parse_offload(common.offload).optimizer && common.shard == "none") {
      throw UsageError("--offload optimizer needs --shard optimizer, gradients or parameters");
    }
  });
  exclude_cuda_graph(
      options, common, "offload", [&common] { return parse_offload(common.offload).activations; },
      "the copies of activations take other memory in each step");
  options.add("compress", common.compress, "NAME",
              "compression of gradients between ranks: none, fp16, bf16, topk or powersgd", compression_names());
  options.add("compress-density", common.compress_density, "part of each gradient that topk sends");
  options.add("compress-rank", common.compress_rank, "rank of the matrices that powersgd sends");
  options.add(
      "local-steps", common.local_steps,
      "updates of each rank by itself between two averages of the parameters; 1: gradients are averaged in each "
      "step");
  options.add("outer-momentum", common.outer_momentum, "momentum of the averages of --local-steps");
  options.add("check-parameters", common.check_parameters,
              "updates between two comparisons of the ranks' parameters, which must be equal; 0: never", 0);
  options.add(
      "hang", common.hang, "abort|report|off",
      "action when a rank makes no progress: report where each rank is and end the job, only report, or do nothing",
      {"abort", "report", "off"});
  options.add("cuda-graph", common.cuda_graph, "auto|on|off",
              "record the GPU work of an update, and launch it as a whole; auto: where nothing forbids it",
              {"auto", "on", "off"});
  options.set_bare("cuda-graph", "on");
  options.add_flag("profile", common.profile,
                   "write DIR/profile.jsonl and DIR/trace.json: computing, waiting and bytes of each step and rank");
  options.add_flag("show-memory", common.show_memory,
                   "print how much memory a rank needs after the first update, and with other values of --shard and "
                   "numbers of ranks");
  options.add_flag("tensorboard", common.tensorboard, "write DIR/tensorboard: the log and the options for TensorBoard");
}

void add_training_options(Options& options, CommonOptions& common) {
  options.add("accumulate", common.accumulate,
              "minibatches of an update, whose gradients are summed before the ranks reduce them once", 1);
  options.add("clip-norm", common.clip_norm,
              "largest norm of all gradients together; larger gradients are scaled down; 0: no clipping", 0);
  options.add(
      "norms", common.norms,
      "every so many updates, report the norms of gradients and weights, and the update's relative size; 0: never", 0);
  exclude_cuda_graph(
      options, common, "norms", [&common] { return common.norms > 0; },
      "a graph repeats one step, and norms are not of each step");
  options.add("ema", common.ema,
              "decay of averaged weights, such as 0.999, which are validated and saved; 0: no averaging", 0, 0.999999);
  options.add("monitor", common.monitor, "VALUE", "value of the log for --best, --early-stop and --schedule plateau");
  options.add("monitor-better", common.monitor_better, "auto|lower|higher",
              "whether lower or higher values are better; auto: by the name, such as loss, accuracy, IoU",
              {"auto", "lower", "higher"});
  options.add_flag("best", common.keep_best,
                   "keep the checkpoint of the best report; DIR/snapshot_best is a link to it");
  options.add("early-stop", common.early_stop,
              "reports in a row without a better value after which training ends; 0: never", 0);
  options.add("min-delta", common.min_delta,
              "improvement of the value up to which --early-stop and --schedule plateau do not take it for better", 0);
  options.add("initmodel", common.initmodel, "FILE", "initial weights: model.safetensors, or a checkpoint");
  options.add_flag("initmodel-partial", common.initmodel_partial,
                   "load the weights of --initmodel whose names and shapes match the model's, and list the others");
  options.add("evaluate", common.evaluate, "FILE", "only validate the weights of a checkpoint or of model.safetensors");
  options.add("find-lr", common.find_lr, "FIRST,LAST,STEPS",
              "propose a learning rate and train nothing: the rate rises from FIRST to LAST in at most STEPS updates, "
              "and DIR/find-lr/report.html shows the loss over it; alone: " +
                  std::string(kRateSearch));
  options.set_bare("find-lr", kRateSearch);
  options.add_flag("one-batch", common.one_batch,
                   "one update, one minibatch of validation, then the end: a test run, which writes to DIR/one-batch");
}

/// Ranks write their last calls to `folder` if the job ends badly. MN_CALLS, if set, names another folder.
void record_calls_in(const std::filesystem::path& folder, const Communicator& comm) {
  if (environment("MN_CALLS")) return;
  if (comm.rank() == 0) {
    std::error_code ignored;
    std::filesystem::remove_all(folder, ignored);
  }
  set_calls_folder(folder.string());
}

/// With --find-lr or --one-batch, a subfolder, because a trial must not change a training in the folder of --out.
std::filesystem::path output_folder(const CommonOptions& common) {
  const std::filesystem::path out = common.out;
  if (!common.find_lr.empty()) return out / "find-lr";
  return common.one_batch ? out / "one-batch" : out;
}

CudaGraph cuda_graph_of(const CommonOptions& common) {
  if (common.cuda_graph == "on") return CudaGraph::kOn;
  return common.cuda_graph == "auto" ? CudaGraph::kAuto : CudaGraph::kOff;
}

}  // namespace

void exclude_cuda_graph(Options& options, CommonOptions& common, const std::string& name,
                        const std::function<bool()>& is_used, const std::string& reason) {
  options.add_check([&common, name, is_used, reason] {
    if (!is_used()) return;
    if (common.cuda_graph == "on") throw UsageError("--" + name + " and --cuda-graph on exclude each other: " + reason);
    common.cuda_graph = "off";
  });
}

Offload parse_offload(std::string_view list) {
  Offload offload;
  if (list == "none") return offload;
  for (const std::string_view part : split(list, ',')) {
    if (part != "activations" && part != "optimizer") {
      throw UsageError("--offload takes none, activations, optimizer or activations,optimizer, not " +
                       std::string(list));
    }
    (part == "activations" ? offload.activations : offload.optimizer) = true;
  }
  return offload;
}

OptimizerOptions optimizer_options(const CommonOptions& common) {
  return {.overlap = common.overlap == "auto" ? std::nullopt : std::optional(common.overlap == "on"),
          .double_buffering = common.double_buffering,
          .shard = {.what = parse_shard(common.shard),
                    .group = parse_shard_group(common.shard_group),
                    .offload = parse_offload(common.offload).optimizer},
          .compression = {.kind = parse_compression(common.compress),
                          .density = common.compress_density,
                          .rank = common.compress_rank},
          .local_steps = common.local_steps,
          .outer_momentum = common.outer_momentum,
          .grad_scaler = common.precision == "fp16" ? std::optional(GradScalerOptions()) : std::nullopt,
          .check_parameters = common.check_parameters,
          .deterministic = common.deterministic,
          .nccl_limits = {.max_ctas = static_cast<int>(common.overlap_ctas)},
          .trace = common.profile ? std::make_shared<Trace>() : nullptr};
}

std::shared_ptr<MultiNodeOptimizer> create_optimizer(const CommonOptions& common, double rate,
                                                     const torch::nn::Module& model,
                                                     const std::shared_ptr<Communicator>& comm,
                                                     const OptimizerOptions& how) {
  name_tensors(model);
  const bool is_narrow = common.precision == kNarrowWeights;
  if (is_narrow) narrow_weights(model, at::kBFloat16);
  auto actual = make_optimizer(common, rate, model);
  if (auto* const masters = dynamic_cast<MasterWeights*>(actual.get()); masters != nullptr && is_narrow)
    masters->keep_masters();
  std::shared_ptr<MultiNodeOptimizer> optimizer = create_multi_node_optimizer(std::move(actual), comm, how);
  optimizer->name_groups(group_names(common, model));
  if (common.clip_norm > 0) optimizer->add_hook("clip", gradient_clipping(common.clip_norm));
  return optimizer;
}

TrainerOptions trainer_options(const CommonOptions& common, const OptimizerOptions& how) {
  TrainerOptions options = {.epochs = common.epoch,
                            .iterations = common.one_batch ? 1 : common.iterations,
                            .accumulate = common.accumulate,
                            .cuda_graph = cuda_graph_of(common),
                            .out = output_folder(common),
                            .checkpoint_on_signal = true,
                            .trace = how.trace};
  if (!common.find_lr.empty()) {  // a search has its own limit of updates, and saves nothing
    options.epochs = 0;
    options.iterations = rate_search_options(common.find_lr).steps;
    options.checkpoint_on_signal = false;
  }
  return options;
}

Better monitored_direction(const CommonOptions& common) {
  extensions::check_monitored(common.monitor);
  if (common.monitor_better == "lower") return Better::kLower;
  if (common.monitor_better == "higher") return Better::kHigher;
  if (const auto known = better_of(common.monitor)) return *known;
  throw UsageError("--monitor " + common.monitor +
                   ": its name does not say whether lower or higher values are better: correct it, or give "
                   "--monitor-better lower or higher");
}

void add_common_options(Options& options, CommonOptions& common) {
  options.add("batchsize", common.batchsize, "samples of a minibatch on each rank", 1, kMaxSamples);
  options.add("epoch", common.epoch, "passes over the training data", 1);
  options.add("iterations", common.iterations,
              "updates after which training ends, if the epochs are not over before; 0: no limit", 0);
  options.add("communicator", common.communicator, "NAME",
              "how ranks exchange data: auto, " + join(communicator_names()));
  options.add("device", common.device, "auto|cpu|cuda[:K]", "device of each rank");
  options.add_alias("gpu", "device", "cuda");
  options.add("stage", common.stage, "DIR",
              "copy the shards in use to DIR on each node, such as $TMPDIR, beside training");
  options.add("stage-budget", common.stage_budget,
              "GiB of a dataset's copies on each node; 0: all but a tenth of the disk", 0, 1 << 30);
  options.add("stage-rate", common.stage_rate, "MiB a second that each node copies to --stage; 0: no limit", 0,
              1 << 30);
  options.add("out", common.out, "DIR", "folder for all output");
  options.add("resume", common.resume, "PATH|auto",
              "resume from a checkpoint; auto: the newest in DIR, if there is one");
  options.set_bare("resume", "auto");
  options.add_flag("balance", common.balance,
                   "draw training samples so that each class comes equally often, some samples several times an epoch");
  options.add("seed", common.seed, "seed of parameters and order of samples", 0);
  options.add("precision", common.precision, "NAME", "fp32, tf32, bf16, fp16 or bf16-parameters",
              {"fp32", "tf32", "bf16", "fp16", kNarrowWeights});
  options.add_check([&common] {
    const bool has_masters = common.optimizer != "lars" && common.optimizer != "lamb";
    if (common.precision != kNarrowWeights || has_masters) return;
    throw UsageError(std::string("--precision ") + kNarrowWeights + " needs --optimizer sgd, adam or adamw, not " +
                     common.optimizer + ", which keeps no float32 masters");
  });
  options.add(
      "checkpoint-every", common.checkpoint_every, "N[e|i|s]|auto",
      "checkpoint every N epochs, iterations or seconds, and at the end; auto: as often as takes a hundredth of the "
      "time at most; none: never");
  options.add("keep", common.keep, "checkpoints to keep, the newest; --best keeps the best beside them", 1);
  options.add("val-every", common.val_every, "N[e|i|s]",
              "validate every N epochs, iterations or seconds; empty: with each report");
  options.add_flag("deterministic", common.deterministic, "equal bits in every run");
  add_update_options(options, common);
  add_training_options(options, common);
  add_communication_options(options, common);
  options.add_conditions(effects_of(common));
}

bool parse_options(Options& options, int argc, const char* const* argv, int rank) {
  const Options::Action action = options.parse(argc, argv);
  if (action == Options::Action::kRun) return true;
  if (rank == 0) std::cout << (action == Options::Action::kHelp ? options.help() : version_table()) << std::flush;
  return false;
}

std::shared_ptr<Communicator> set_up(const CommonOptions& common) {
  // All options are checked before the first collective call, in which a rank that throws later would be missing.
  const bool named = common.checkpoint_every == "none" || common.checkpoint_every == kContinuousCheckpoints;
  if (!named) (void)Interval::parse(common.checkpoint_every);
  if (!common.val_every.empty()) (void)Interval::parse(common.val_every);
  if (uses_monitor(common)) (void)monitored_direction(common);
  if (!common.find_lr.empty()) (void)rate_search_options(common.find_lr);
  check_options(optimizer_options(common));
  if (common.ema > 0) extensions::WeightAverage::check_optimizer(common.local_steps > 1);
  CommunicatorOptions wanted;  // by default, a rank takes its GPU, or the CPU if the node has no GPU
  if (common.device != "auto" && common.device != "cuda") wanted.device = Device::parse(common.device);
  auto comm = create_communicator(common.communicator, MPI_COMM_WORLD, wanted);
  if (common.device == "cuda" && comm->device().type != DeviceType::kCuda) {
    throw UsageError("--device cuda: there is no GPU in reach of the ranks");
  }
  // Log the absence of a GPU only if MN_DEVICE is set, because otherwise create_communicator() has logged it.
  const bool found_none = common.device == "auto" && environment("MN_DEVICE");
  if (found_none && comm->device().type == DeviceType::kCpu && comm->rank() == 0) {
    log_info("no GPU in reach: training on the CPU");
  }
  if (common.offload != "none" && comm->device().type == DeviceType::kCpu && comm->rank() == 0) {
    log_warning("--offload: ranks compute on CPUs, nothing is moved");
  }
  record_calls_in(output_folder(common) / "calls", *comm);
  set_hang_action(common.hang == "off"      ? HangAction::kOff
                  : common.hang == "report" ? HangAction::kReport
                                            : HangAction::kAbort);
  set_precision(common.precision);
  set_deterministic(common.deterministic);
  // Ranks draw different dropout masks. Their initial weights are rank 0's, and equal those of a single process.
  seed_random(static_cast<std::uint64_t>(common.seed + comm->rank()), comm->device());
  return comm;
}

void set_precision(const std::string& precision) {
  at::globalContext().setFloat32MatmulPrecision(precision == "tf32" ? "high" : "highest");
  at::globalContext().setAllowTF32CuDNN(precision == "tf32");
}

void set_deterministic(bool on) {
  at::globalContext().setDeterministicAlgorithms(on, false);
  at::globalContext().setDeterministicCuDNN(on);
  at::globalContext().setBenchmarkCuDNN(!on);  // a benchmark may choose different kernels in every run
}

std::optional<c10::ScalarType> autocast_type(const std::string& precision) {
  if (precision == "bf16" || precision == kNarrowWeights) return at::kBFloat16;
  if (precision == "fp16") return at::kHalf;
  return std::nullopt;
}

}  // namespace mn::app

#include "common.hpp"

#include <fstream>
#include <iostream>
#include <optional>

#include <mn/core/environment.hpp>
#include <mn/core/error.hpp>
#include <mn/core/log.hpp>
#include <mn/train/on_root.hpp>
#include <mn/train/random_state.hpp>
#include <mn/train/triggers.hpp>

#include "precision.hpp"
#include "versions.hpp"

namespace mn::jobs {
namespace {

std::string communicator_help() {
  std::string text = "how ranks exchange data: auto";
  for (const auto& name : communicator_names()) text += ", " + name;
  return text;
}

}  // namespace

void add_common_options(Options& options, CommonOptions& common) {
  options.add("batchsize", common.batchsize, "samples of a minibatch on each rank", 1);
  options.add("epoch", common.epoch, "passes over the training data", 1);
  options.add("communicator", common.communicator, "NAME", communicator_help());
  options.add("device", common.device, "auto|cpu|cuda[:K]", "where each rank computes");
  options.add_alias("gpu", "device", "cuda");
  options.add("out", common.out, "DIR", "folder for everything that is written");
  options.add("resume", common.resume, "PATH|auto",
              "go on from a checkpoint; auto: the newest in DIR, if there is one");
  options.set_bare("resume", "auto");
  options.add("seed", common.seed, "seed of parameters and order of samples", 0);
  options.add("precision", common.precision, "NAME", "fp32, tf32 or bf16", precision_names());
  options.add("checkpoint-every", common.checkpoint_every, "N[e|i|s]",
              "checkpoint every N epochs, iterations or seconds; none: never");
  options.add_flag("deterministic", common.deterministic, "the same bits from run to run");
}

bool parse_options(Options& options, int argc, const char* const* argv, int rank) {
  const Options::Action action = options.parse(argc, argv);
  if (action == Options::Action::kRun) return true;
  if (rank == 0) std::cout << (action == Options::Action::kHelp ? options.help() : version_table()) << std::flush;
  return false;
}

std::shared_ptr<Communicator> set_up(const CommonOptions& common) {
  if (common.checkpoint_every != "none") (void)Interval::parse(common.checkpoint_every);  // before the long work
  CommunicatorOptions wanted;  // without a device each rank takes its own GPU, or the CPU where there is none
  if (common.device != "auto" && common.device != "cuda") wanted.device = Device::parse(common.device);
  auto comm = create_communicator(common.communicator, MPI_COMM_WORLD, wanted);
  if (common.device == "cuda" && comm->device().type != DeviceType::kCuda) {
    throw UsageError("--device cuda: there is no GPU in reach of the ranks");
  }
  const bool found_none = common.device == "auto" && environment("MN_DEVICE");  // create_communicator says it otherwise
  if (found_none && comm->device().type == DeviceType::kCpu && comm->rank() == 0) {
    log_warning("MN_DEVICE is cpu: training on the CPU");
  }
  set_precision(common.precision);
  if (common.deterministic) set_deterministic();
  seed_random(static_cast<std::uint64_t>(common.seed + comm->rank()), comm->device());
  return comm;
}

void write_config(const Options& options, const std::filesystem::path& out, Communicator& comm) {
  on_root<UsageError>(comm, [&] {
    std::ofstream file(out / "config.ini");
    file << options.ini() << std::flush;
    if (!file) throw UsageError("cannot write " + (out / "config.ini").string());
  });
}

}  // namespace mn::jobs

/// The sizes and limits of a run. They are shown in the first line on the terminal, in run.jsonl and in report.html.
#pragma once

#include <cstdint>
#include <map>
#include <string>

#include <nlohmann/json_fwd.hpp>

#include <mn/trainer/trainer.hpp>

namespace mn::extensions {

/// Facts about a run that only the program knows, and not the Trainer.
struct RunDetails {
  std::string unit = "samples";                  ///< what is counted each second: "images", "tokens", …
  double units_per_sample = 1;                   ///< for instance the tokens of a sample
  std::map<std::string, std::string> used = {};  ///< by option: the value used for a choice such as "auto"
};

/// The sizes and limits of a run. 0 means that a size is unknown, or that a limit does not exist.
struct RunFacts {
  int ranks = 1;                     ///< ranks that train
  int nodes = 1;                     ///< nodes on which these ranks run
  std::string device;                ///< model of rank 0's device, "AMD EPYC 7763 64-Core Processor"
  std::int64_t parameters = 0;       ///< elements of all parameters
  std::int64_t trained = 0;          ///< elements of the parameters with requires_grad
  std::int64_t samples = 0;          ///< samples of an epoch, over all ranks
  std::int64_t steps_per_epoch = 0;  ///< updates in an epoch
  std::int64_t global_batch = 0;     ///< samples of an update, over all ranks
  std::int64_t epochs = 0;           ///< epochs after which training ends
  std::int64_t iterations = 0;       ///< iterations after which training ends
};

/// Returns the facts of a trainer's run. Call it after Trainer::resume(). Local.
[[nodiscard]] RunFacts facts_of(const Trainer& trainer);

/// Returns the JSON object that run.jsonl has under "run": the facts, the details, and the versions of mn and torch.
[[nodiscard]] nlohmann::json to_json(const RunFacts& facts, const RunDetails& details);

/// Describes a run in one line, for instance "2 ranks on 1 node (AMD EPYC 7763): 60000 images, 300 steps an epoch,
/// global batch 200, 20 epochs, 89610 parameters". Unknown sizes are left out.
[[nodiscard]] std::string plan_of(const RunFacts& facts, const std::string& unit);

/// Returns the model of a CPU (/proc/cpuinfo) or GPU (NVIDIA's files in /proc) below the folder `root`, or "CPU" or
/// "GPU".
[[nodiscard]] std::string device_model(bool is_gpu, const std::string& root = "/");

}  // namespace mn::extensions

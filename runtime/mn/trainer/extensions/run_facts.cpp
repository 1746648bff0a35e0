#include <mn/trainer/extensions/run_facts.hpp>

#include <filesystem>
#include <system_error>
#include <vector>

#include <torch/nn/module.h>
#include <torch/version.h>

#include <mn/comm/communicator.hpp>
#include <mn/core/json.hpp>
#include <mn/core/small_files.hpp>
#include <mn/core/text.hpp>
#include <mn/tensor/modules.hpp>

namespace mn::extensions {
namespace {

std::string counted(std::int64_t count, const std::string& thing) {
  return std::to_string(count) + " " + thing + (count == 1 ? "" : "s");
}

}  // namespace

RunFacts facts_of(const Trainer& trainer) {
  const Communicator& comm = trainer.communicator();
  const EpochSize size = trainer.iterator().epoch_size();
  RunFacts facts = {.ranks = comm.size(),
                    .nodes = comm.topology().inter_size,
                    .device = device_model(comm.device().type == DeviceType::kCuda),
                    .samples = size.samples,
                    .steps_per_epoch = trainer.iterations_per_epoch(),
                    .global_batch = size.batch * comm.size() * trainer.options().accumulate,
                    .epochs = trainer.options().epochs,
                    .iterations = trainer.options().iterations};
  for (const at::Tensor& parameter : parameters_of(trainer.model())) {
    facts.parameters += parameter.numel();
    if (parameter.requires_grad()) facts.trained += parameter.numel();
  }
  return facts;
}

nlohmann::json to_json(const RunFacts& facts, const RunDetails& details) {
  return {{"parameters", facts.parameters},
          {"trained_parameters", facts.trained},
          {"samples", facts.samples},
          {"steps_per_epoch", facts.steps_per_epoch},
          {"global_batch", facts.global_batch},
          {"epochs", facts.epochs},
          {"iterations", facts.iterations},
          {"device", facts.device},
          {"unit", details.unit},
          {"units_per_sample", details.units_per_sample},
          {"used", details.used},
          {"mn", MN_VERSION},
          {"torch", TORCH_VERSION}};
}

std::string plan_of(const RunFacts& facts, const std::string& unit) {
  std::vector<std::string> parts;
  if (facts.samples > 0) parts.push_back(std::to_string(facts.samples) + " " + (unit == "images" ? unit : "samples"));
  if (facts.steps_per_epoch > 0) parts.push_back(counted(facts.steps_per_epoch, "step") + " an epoch");
  if (facts.global_batch > 0) parts.push_back("global batch " + std::to_string(facts.global_batch));
  if (facts.epochs > 0) parts.push_back(counted(facts.epochs, "epoch"));
  if (facts.iterations > 0) parts.push_back("at most " + counted(facts.iterations, "step"));
  parts.push_back(counted(facts.parameters, "parameter"));
  if (facts.trained < facts.parameters) parts.back() += " (" + std::to_string(facts.trained) + " trained)";
  return counted(facts.ranks, "rank") + " on " + counted(facts.nodes, "node") + " (" + facts.device +
         "): " + join(parts);
}

std::string device_model(bool is_gpu, const std::string& root) {
  const std::filesystem::path proc = std::filesystem::path(root) / "proc";
  if (!is_gpu) return value_of_key(proc / "cpuinfo", "model name").value_or("CPU");
  std::error_code none;
  for (const auto& gpu : std::filesystem::directory_iterator(proc / "driver/nvidia/gpus", none)) {
    if (const auto model = value_of_key(gpu.path() / "information", "Model")) return *model;
  }
  return "GPU";
}

}  // namespace mn::extensions

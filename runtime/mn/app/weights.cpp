
#include <mn/app/weights.hpp>

#include <cstdio>
#include <optional>

#include <mn/core/classic_stream.hpp>
#include <mn/core/log.hpp>

namespace mn::app {

void load_initial_weights(const CommonOptions& options, torch::nn::Module& model, Communicator& comm) {
  if (options.initmodel.empty()) return;
  if (!options.initmodel_partial) return load_model(options.initmodel, model, comm);
  const LoadReport report = load_matching(options.initmodel, model, comm);
  if (comm.rank() == 0) log_info(options.initmodel + ": " + to_string(report));
}

void save_weights(Trainer& trainer, extensions::WeightAverage* average, const Metadata& metadata) {
  std::optional<extensions::AveragedWeights> averaged;
  if (average != nullptr) averaged.emplace(*average);
  save_model(trainer.out() / "model.safetensors", trainer.model(), trainer.communicator(), metadata);
}

int evaluate_only(const CommonOptions& options, torch::nn::Module& model, Evaluator& evaluator, Communicator& comm) {
  load_model(options.evaluate, model, comm);
  for (const auto& [name, value] : evaluator.evaluate()) {
    OutText line;
    line << "validation/main/" << name << ' ' << value << '\n';
    if (comm.rank() == 0) std::fputs(line.str().c_str(), stdout);
  }
  std::fflush(stdout);
  return 0;
}

}  // namespace mn::app

#include <mn/trainer/extensions/validation.hpp>

#include <utility>

#include <nlohmann/json.hpp>

#include <mn/comm/create_communicator.hpp>
#include <mn/core/error.hpp>
#include <mn/trainer/trainer.hpp>

namespace mn::extensions {

Validation::Validation(std::unique_ptr<Evaluator> evaluator, std::string name)
    : evaluator_(std::move(evaluator)), name_(std::move(name)) {
  if (!evaluator_) throw ArgumentError("the extension \"" + name_ + "\" needs an evaluator");
}

void Validation::run(Trainer& trainer) {
  trainer.finish_steps();
  evaluator_->set_pauses(trainer.pauses());
  const Metrics metrics = evaluator_->evaluate();
  prove_equal(metrics, "the metrics of the extension \"" + name_ + "\" (create_multi_node_evaluator() combines them)",
              trainer.communicator());
  for (const auto& [metric, value] : metrics) trainer.report(name_ + "/main/" + metric, value);
  ++runs_;
}

}  // namespace mn::extensions

#include <mn/core/error.hpp>
#include <mn/train/extensions/evaluator.hpp>
#include <mn/train/trainer.hpp>

namespace mn::extensions {

Evaluator::Evaluator(std::unique_ptr<mn::Evaluator> evaluator, std::string name)
    : evaluator_(std::move(evaluator)), name_(std::move(name)) {
  if (!evaluator_) throw ArgumentError("the extension \"" + name_ + "\" was given no evaluator");
}

void Evaluator::run(Trainer& trainer) {
  trainer.optimizer().synchronize();
  trainer.synchronize();
  for (const auto& [metric, value] : evaluator_->evaluate()) trainer.report(name_ + "/main/" + metric, value);
}

}  // namespace mn::extensions

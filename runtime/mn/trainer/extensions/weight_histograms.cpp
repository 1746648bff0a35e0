#include <mn/trainer/extensions/weight_histograms.hpp>

#include <mn/sharding/shard_pass.hpp>
#include <mn/tensor/modules.hpp>
#include <mn/trainer/trainer.hpp>

namespace mn::extensions {

void WeightHistograms::run(Trainer& trainer) {
  trainer.finish_steps();
  const WholeParameters whole(trainer.model());
  if (!trainer.is_root()) return;
  for (const auto& [name, tensor] : named_parameters(trainer.model())) {
    board_.add_histogram(trainer, "weights/" + name, tensor);
  }
}

}  // namespace mn::extensions

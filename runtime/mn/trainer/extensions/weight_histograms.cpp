#include <mn/trainer/extensions/weight_histograms.hpp>

#include <mn/sharding/pieces.hpp>
#include <mn/sharding/shard_pass.hpp>
#include <mn/tensor/modules.hpp>
#include <mn/trainer/trainer.hpp>

namespace mn::extensions {

void WeightHistograms::run(Trainer& trainer) {
  trainer.finish_steps();
  const WholeParameters whole(trainer.model());
  for (const auto& [name, tensor] : named_parameters(trainer.model())) {
    const at::Tensor values = whole_on_root(tensor);  // experts are gathered
    if (trainer.is_root()) board_.add_histogram(trainer, "weights/" + name, values);
  }
}

}  // namespace mn::extensions

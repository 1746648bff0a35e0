#include <mn/trainer/extensions/allreduce_persistent.hpp>

#include <mn/trainer/running_statistics.hpp>
#include <mn/trainer/trainer.hpp>

namespace mn {

void average_buffers(torch::nn::Module& model, Communicator& comm, const std::vector<std::string>& also) {
  average_over_ranks(averaged_buffers(model, also), comm);
}

void extensions::AllreducePersistent::run(Trainer& trainer) {
  trainer.finish_steps();
  average_buffers(trainer.model(), trainer.communicator(), also_);
  trainer.average_kept_statistics();
}

}  // namespace mn

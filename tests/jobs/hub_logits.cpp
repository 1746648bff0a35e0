// hub_logits FOLDER IN OUT: writes the "logits" of the network in a folder of the hub, for the "tokens" of the
// safetensors file IN, to OUT.
#include <torch/torch.h>

#include <mn/checkpoint/safetensors.hpp>
#include <mn/comm/communicator.hpp>
#include <mn/core/file.hpp>
#include <mn/job/job.hpp>
#include <mn/models/create_language_model.hpp>

#include "gpt/hub.hpp"

int main(int argc, char** argv) {
  mn::Job job(argc, argv);
  const auto comm = mn::create_communicator("auto");
  const auto hub = mn::jobs::open_hub(argv[1], *comm);
  const auto model = mn::models::create_language_model(hub->network);
  mn::load_model(argv[1], *model, *comm, {}, mn::jobs::hub_layout(hub->network));
  model->eval();
  const torch::NoGradGuard no_grad;
  const at::Tensor tokens = mn::load_safetensors(argv[2]).front().second;
  mn::write_file(argv[3], mn::to_safetensors({{"logits", model->forward(tokens)}}));
  return 0;
}

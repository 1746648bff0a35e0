#include <vector>

#include <ATen/core/Tensor.h>
#include <ATen/core/grad_mode.h>
#include <ATen/ops/cat.h>

#include <mn/comm/communicator.hpp>
#include <mn/tensor/modules.hpp>
#include <mn/tensor/tensor.hpp>
#include <mn/trainer/extensions/allreduce_persistent.hpp>
#include <mn/trainer/trainer.hpp>

namespace mn {

void average_buffers(torch::nn::Module& model, Communicator& comm) {
  if (comm.size() == 1) return;
  std::vector<at::Tensor> buffers;
  std::vector<at::Tensor> flat;
  for (const at::Tensor& buffer : buffers_of(model)) {
    if (!buffer.is_floating_point()) continue;
    buffers.push_back(buffer);
    flat.push_back(buffer.flatten().to(at::kFloat));
  }
  if (buffers.empty()) return;
  const at::NoGradGuard no_grad;
  at::Tensor all = at::cat(flat);
  comm.allreduce(all);
  all.div_(comm.size());
  std::int64_t first = 0;
  for (at::Tensor& buffer : buffers) {
    buffer.copy_(all.narrow(0, first, buffer.numel()).view_as(buffer));
    first += buffer.numel();
  }
}

void extensions::AllreducePersistent::run(Trainer& trainer) {
  trainer.finish_steps();
  average_buffers(trainer.model(), trainer.communicator());
}

}  // namespace mn

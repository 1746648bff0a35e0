// Computes running statistics as if one rank had seen the samples of all ranks, with one reduction
// (running_statistics.hpp).
//
// Sums are in float64. In float32, the squares of large means would be rounded by more than the variance. Also, if a
// value is the same on all ranks, its average in float32 could differ from it in the last bits.
#include <mn/trainer/extensions/allreduce_persistent.hpp>

#include <ATen/core/Tensor.h>
#include <ATen/core/grad_mode.h>
#include <ATen/ops/cat.h>

#include <mn/comm/communicator.hpp>
#include <mn/tensor/tensor.hpp>
#include <mn/trainer/running_statistics.hpp>
#include <mn/trainer/trainer.hpp>

namespace mn {

void average_buffers(torch::nn::Module& model, Communicator& comm, const std::vector<std::string>& also) {
  const std::vector<AveragedBuffer> buffers = averaged_buffers(model, also);
  if (comm.size() == 1 || buffers.empty()) return;
  const at::NoGradGuard no_grad;
  std::vector<at::Tensor> values;
  for (const AveragedBuffer& each : buffers) values.push_back(each.buffer.flatten().to(at::kDouble, false, true));
  add_squared_means(buffers, values);
  at::Tensor all = at::cat(values);
  comm.allreduce(all);
  all.div_(comm.size());
  std::int64_t first = 0;
  for (at::Tensor& each : values) {
    each = all.narrow(0, first, each.numel());
    first += each.numel();
  }
  subtract_squared_means(buffers, values);
  for (std::size_t i = 0; i < buffers.size(); ++i) {
    if (buffers[i].mean) values[i].clamp_min_(0);
    at::Tensor(buffers[i].buffer).copy_(values[i].view_as(buffers[i].buffer));
  }
}

void extensions::AllreducePersistent::run(Trainer& trainer) {
  trainer.finish_steps();
  average_buffers(trainer.model(), trainer.communicator(), also_);
}

}  // namespace mn

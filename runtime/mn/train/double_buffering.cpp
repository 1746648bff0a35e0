#include <torch/torch.h>

#include <mn/train/double_buffering.hpp>

namespace mn {

DoubleBufferedReduction::DoubleBufferedReduction(std::vector<at::Tensor> parameters, const Communicator& comm)
    : thread_(comm), gradients_(std::move(parameters), thread_.communicator()) {
  for (auto& buffer : in_flight_) {
    buffer = std::make_shared<FlatBuffer>(gradients_.parameters(), gradients_.tail_count(), thread_.communicator());
  }
}

DoubleBufferedReduction::~DoubleBufferedReduction() { gradients_.release(); }

bool DoubleBufferedReduction::reduce(double weight) {
  gradients_.collect(weight);
  thread_.wait();
  const auto& next = in_flight_[next_];
  FlatBuffer& ready = *in_flight_[1 - next_];
  next->copy_from(gradients_.flat());
  thread_.submit([next](Communicator& comm) { comm.allreduce_grad(next->messages(), 1.0 / comm.size()); });
  next_ = 1 - next_;
  return std::exchange(started_, true) && gradients_.finish(ready);
}

}  // namespace mn

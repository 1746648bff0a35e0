#include <exception>
#include <utility>

#include <ATen/core/Tensor.h>

#include <mn/core/log.hpp>
#include <mn/gradients/double_buffering.hpp>

namespace mn {

DoubleBufferedReduction::DoubleBufferedReduction(std::vector<at::Tensor> parameters, Communicator& comm,
                                                 std::shared_ptr<GradientAverager> averager, GradientWatch::Depth watch)
    : GradientReduction(averager),
      background_(comm),
      gradients_(std::move(parameters), background_.communicator(), watch) {
  for (auto& shared : in_flight_) {
    FlatBuffer buffer(gradients_.parameters(), gradients_.tail_count(), background_.communicator());
    shared = std::make_shared<Shared>(std::move(buffer), averager);
  }
  averager->lay_out({}, background_.communicator());
}

DoubleBufferedReduction::~DoubleBufferedReduction() {
  gradients_.release();
  if (std::uncaught_exceptions() > 0) return;
  try {
    background_.wait();  // memory that all ranks free together must not be freed by a task
  } catch (const std::exception& error) {
    log_error(std::string("cannot end double buffering: ") + error.what());
  }
}

bool DoubleBufferedReduction::reduce(double weight, double factor) {
  gradients_.collect(weight, factor);
  background_.wait();
  const auto next = in_flight_[next_];
  next->buffer.copy_from(gradients_.flat());
  // The last step's mean is applied from the other buffer before this step's reduction can need it.
  const bool any = flush();
  background_.submit(
      [next](Communicator& comm) { next->averager->allreduce(next->buffer, 0, next->buffer.messages().size(), comm); });
  next_ = 1 - next_;
  started_ = true;
  return any;
}

bool DoubleBufferedReduction::flush() {
  background_.wait();
  if (!std::exchange(started_, false)) return false;
  if (!gradients_.finish(in_flight_[1 - next_]->buffer)) return false;
  averager().commit();
  return true;
}

}  // namespace mn

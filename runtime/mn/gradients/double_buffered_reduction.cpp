#include <mn/gradients/double_buffered_reduction.hpp>

#include <cassert>
#include <exception>
#include <utility>

#include <ATen/core/Tensor.h>

#include <mn/core/log.hpp>

namespace mn {

DoubleBufferedReduction::DoubleBufferedReduction(std::vector<at::Tensor> parameters,
                                                 const SparseGradients::Flags& sparse,
                                                 std::shared_ptr<Communicator> comm,
                                                 std::shared_ptr<GradientAverager> averager, GradientWatch::Depth watch)
    : GradientReduction(std::move(comm), averager) {
  Communicator& background = background_.emplace(*comm_).communicator();
  gradients_.emplace(std::move(parameters), sparse, background, watch);
  for (auto& shared : in_flight_) {
    auto buffer = std::make_unique<FlatBuffer>(gradients_->inside(), gradients_->flat().tail_count(), background);
    shared = std::make_shared<Shared>(std::move(buffer), averager);
  }
  averager->lay_out({}, background);
}

DoubleBufferedReduction::~DoubleBufferedReduction() {
  if (std::uncaught_exceptions() > 0) return;
  try {
    finish();  // otherwise a task might free memory that all ranks must free together
  } catch (const std::exception& error) {
    log_error(std::string("cannot end double buffering: ") + error.what());
  }
}

void DoubleBufferedReduction::train_only(const std::vector<bool>& parameters) {
  background_->wait();
  gradients_->train_only(parameters);
  for (const auto& shared : in_flight_) shared->buffer->send_only(parameters);
}

ReductionResult DoubleBufferedReduction::reduce(const StepWeight& weight, bool has_fault) {
  // Invariant 3: if a rank changes its parameter set, all ranks must end after the same number of reductions. On a GPU
  // the last step's agreement has already told all ranks of the change, and the rank that changes its set makes no more
  // reductions. Therefore the calling rank makes none either, and returns the last result.
  if (started_ && in_flight_[1 - next_]->agreement.any_set_change()) return flush();
  StepAgreement agreement = gradients_->collect(weight, {.fault = has_fault});
  agreement.agree(*comm_);
  const auto next = in_flight_[next_];  // free: its mean was applied before the last submit
  const std::size_t messages = next->buffer->messages().size();
  for (std::size_t m = 0; m < messages; ++m) next->buffer->let_go(m);  // the program may have kept a mean
  next->buffer->copy_from(gradients_->flat());
  next->agreement = std::move(agreement);
  // Invariant 2: at most one reduction is under way. Therefore flush() first waits for the last step's reduction.
  const ReductionResult last = flush();
  if (last.set_changes) return last;  // invariant 3: a rank changes its parameter set; therefore no more reductions
  assert(!started_);                  // invariant 2: flush() has waited
  background_->submit([next, messages, divisor = weight.divisor](Communicator& comm) {
    next->averager->allreduce(*next->buffer, 0, messages, divisor, comm);
  });
  next_ = 1 - next_;
  started_ = true;
  return last;
}

ReductionResult DoubleBufferedReduction::flush() {
  background_->wait();
  if (!std::exchange(started_, false)) return {};
  Shared& last = *in_flight_[1 - next_];
  last.agreement.read(last.buffer->tail());
  const ReductionResult result = gradients_->finish(*last.buffer, last.agreement);
  if (result.has_mean) averager().commit();
  return result;
}

}  // namespace mn

#include <mn/gradients/step_agreement.hpp>

#include <algorithm>
#include <cstdint>
#include <span>

#include <ATen/core/Tensor.h>
#include <ATen/ops/from_blob.h>

#include <mn/tensor/weighted_loss.hpp>

namespace mn {
namespace {

at::Tensor as_tensor(std::vector<double>& numbers) {
  return at::from_blob(numbers.data(), {static_cast<std::int64_t>(numbers.size())}, at::kDouble);
}

}  // namespace

StepAgreement::StepAgreement(const StepWeight& weight, std::size_t gradients, const Signals& signals)
    : numbers_(kNumbers + gradients), own_weight_(weight) {
  numbers_[0] = weight.divisor;
  numbers_[1] = signals.stale ? 1 : 0;
  numbers_[2] = signals.promises ? 1 : 0;
  numbers_[3] = signals.wants_copy ? 1 : 0;
  numbers_[5] = signals.fault ? 1 : 0;
  numbers_[6] = weight.assumed_equal ? 1 : 0;
  numbers_[7] = weight.divisor != 1 ? 1 : 0;
}

std::size_t StepAgreement::tail_count(std::size_t gradients, const Communicator& comm) {
  return comm.device().type == DeviceType::kCpu ? kNumbers + gradients : 0;  // invariants 1, 2: none on GPUs
}

void StepAgreement::write(const at::Tensor& tail) const {
  if (tail.numel() == 0) return;
  std::vector<double> numbers = numbers_;
  tail.copy_(as_tensor(numbers));
}

void StepAgreement::agree(Communicator& comm) {
  if (comm.device().type == DeviceType::kCpu || comm.size() == 1) return;
  comm.allreduce(std::span(numbers_));
  std::ranges::for_each(numbers_, [&](double& number) { number /= comm.size(); });
}

bool StepAgreement::misweighed(double mean) const {
  return own_weight_.assumed_equal && !weighs_as_mean(own_weight_.divisor, mean);
}

void StepAgreement::read(const at::Tensor& tail) {
  if (tail.numel() > 0) as_tensor(numbers_).copy_(tail);
}

}  // namespace mn

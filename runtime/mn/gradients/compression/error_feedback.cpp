#include <mn/gradients/compression/error_feedback.hpp>

#include <algorithm>
#include <iomanip>
#include <map>
#include <string>

#include <ATen/core/Tensor.h>
#include <ATen/core/grad_mode.h>
#include <ATen/ops/add.h>
#include <ATen/ops/addcmul.h>
#include <ATen/ops/empty_like.h>
#include <ATen/ops/full.h>
#include <ATen/ops/zeros.h>

#include <mn/core/classic_stream.hpp>
#include <mn/core/error.hpp>
#include <mn/tensor/tensor.hpp>

namespace mn {
namespace {

std::string residual_name(std::size_t i) { return "residual." + std::to_string(i); }

}  // namespace

ErrorFeedback::ErrorFeedback(std::vector<at::Tensor> parameters, std::vector<bool> compressed,
                             std::shared_ptr<Trace> trace)
    : GradientAverager(std::move(trace)),
      parameters_(std::move(parameters)),
      compressed_(std::move(compressed)),
      residuals_(parameters_.size()),
      next_residuals_(parameters_.size()) {
  for (std::size_t i = 0; i < parameters_.size(); ++i) {
    compressed_[i] = compressed_[i] && parameters_[i].scalar_type() == at::kFloat && parameters_[i].numel() > 0;
    if (!compressed_[i]) continue;
    residuals_[i] = at::zeros({parameters_[i].numel()}, at::TensorOptions(at::kFloat).device(parameters_[i].device()));
    next_residuals_[i] = at::empty_like(residuals_[i]);
  }
}

void ErrorFeedback::do_allreduce(FlatBuffer& gradients, std::size_t first, std::size_t count, double divisor,
                                 Communicator& comm) {
  std::vector<std::size_t> members;
  std::vector<BufferView> plain;
  for (std::size_t m = first; m < first + count; ++m) {
    const auto i = gradients.parameter_of(m);
    if (!gradients.is_sent(m)) continue;
    if (i && compressed_[*i]) {
      members.push_back(*i);
    } else {
      plain.push_back(gradients.messages()[m]);
    }
  }
  if (first == 0) {
    divisor_ = at::full({1}, divisor, at::TensorOptions(at::kDouble).device(gradients.tail().device()));
    plain.push_back(buffer_view(divisor_));
  }
  average(plain, comm);
  for (const std::size_t i : members) add_residual(i, gradient(gradients, i));
  if (!members.empty()) reduce(members, gradients, comm);
}

/// Sets next_residual = gradient + residual. Before the addition the residual is converted to the units of this step's
/// gradients. The stored residual does not change, because only commit() may change residuals (invariant 1).
void ErrorFeedback::add_residual(std::size_t i, const at::Tensor& gradient) {
  if (gradient.is_cpu()) {
    at::add_out(next_residuals_[i], gradient, residuals_[i], scale_ * divisor_.item<double>());
  } else {  // the divisor stays on the device; therefore the host need not wait
    at::addcmul_out(next_residuals_[i], gradient, residuals_[i], divisor_.to(at::kFloat), scale_);
  }
}

void ErrorFeedback::commit() {
  for (std::size_t i = 0; i < residuals_.size(); ++i) {
    if (!used(i)) continue;  // invariant 2: without a gradient the residual stays unchanged
    std::swap(residuals_[i], next_residuals_[i]);
    if (!divisor_.is_cpu()) {
      residuals_[i].div_(divisor_.to(at::kFloat).mul_(scale_));
    } else if (const double unit = scale_ * divisor_.item<double>(); unit != 1) {
      residuals_[i].div_(unit);
    }
  }
}

std::string ErrorFeedback::whole_gradients() const {
  std::int64_t gradients = 0, whole = 0, elements = 0, all = 0;
  for (std::size_t i = 0; i < parameters_.size(); ++i) {
    if (parameters_[i].numel() == 0) continue;  // an empty tensor: for a parameter with sparse gradients, too
    ++gradients;
    all += parameters_[i].numel();
    if (compressed_[i]) continue;
    ++whole;
    elements += parameters_[i].numel();
  }
  if (whole == 0) return "";
  OutText text;
  text << whole << " of " << gradients << " gradients (" << std::setprecision(3)
       << 100 * static_cast<double>(elements) / static_cast<double>(std::max<std::int64_t>(all, 1))
       << " % of the elements)";
  return text.str();
}

NamedTensors ErrorFeedback::state() const {
  NamedTensors state;
  for (std::size_t i = 0; i < residuals_.size(); ++i) {
    if (compressed_[i]) state.emplace_back(residual_name(i), residuals_[i]);
  }
  return state;
}

void ErrorFeedback::load_state(const NamedTensors& state) {
  const at::NoGradGuard no_grad;
  const std::map<std::string, at::Tensor> tensors(state.begin(), state.end());
  for (std::size_t i = 0; i < residuals_.size(); ++i) {
    if (!compressed_[i]) continue;
    const auto found = tensors.find(residual_name(i));
    if (found == tensors.end()) {  // the earlier training did not compress this gradient
      residuals_[i].zero_();
      continue;
    }
    if (found->second.numel() != residuals_[i].numel()) {
      throw DataError("mismatch between the checkpoint's error feedback and parameter " + std::to_string(i) +
                          ": it is of another model",
                      true);
    }
    residuals_[i].copy_(found->second);
  }
}

}  // namespace mn

#include <algorithm>
#include <iomanip>
#include <map>
#include <string>

#include <ATen/core/Tensor.h>
#include <ATen/core/grad_mode.h>
#include <ATen/ops/add.h>
#include <ATen/ops/empty_like.h>
#include <ATen/ops/zeros.h>

#include <mn/core/classic_stream.hpp>
#include <mn/core/error.hpp>
#include <mn/gradients/compression/error_feedback.hpp>

namespace mn {
namespace {

std::string residual_name(std::size_t i) { return "residual." + std::to_string(i); }
/// The name in earlier checkpoints, whose residuals have the scale of the gradients.
std::string scaled_name(std::size_t i) { return "lost." + std::to_string(i); }

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

void ErrorFeedback::do_allreduce(FlatBuffer& gradients, std::size_t first, std::size_t count, Communicator& comm) {
  std::vector<std::size_t> members;
  std::vector<BufferView> plain;
  for (std::size_t m = first; m < first + count; ++m) {
    const auto i = gradients.parameter_of(m);
    if (i && compressed_[*i]) {
      // What earlier steps did not send is added, in this gradient's scale. (1): the residual itself stays.
      at::add_out(next_residuals_[*i], gradients.message(m), residuals_[*i], scale_);
      members.push_back(*i);
    } else {
      plain.push_back(gradients.messages()[m]);
    }
  }
  if (!members.empty()) reduce(members, gradients, comm);
  if (!plain.empty()) average(plain, comm);
}

void ErrorFeedback::commit() {
  for (std::size_t i = 0; i < residuals_.size(); ++i) {
    if (!used(i)) continue;  // (2): keeps its residual
    std::swap(residuals_[i], next_residuals_[i]);
    if (scale_ != 1) residuals_[i].div_(scale_);  // in the gradients' own units: the scale may change
  }
}

std::string ErrorFeedback::whole_gradients() const {
  std::int64_t whole = 0, elements = 0, all = 0;
  for (std::size_t i = 0; i < parameters_.size(); ++i) {
    all += parameters_[i].numel();
    if (compressed_[i]) continue;
    ++whole;
    elements += parameters_[i].numel();
  }
  if (whole == 0) return "";
  OutText text;
  text << whole << " of " << parameters_.size() << " gradients (" << std::setprecision(3)
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
    auto found = tensors.find(residual_name(i));
    // Earlier versions stored residuals with the loss scale in them.
    const bool scaled = found == tensors.end();
    if (scaled) found = tensors.find(scaled_name(i));
    if (found == tensors.end()) {  // the training before did not compress it
      residuals_[i].zero_();
      continue;
    }
    if (found->second.numel() != residuals_[i].numel()) {
      throw DataError("mismatch between the checkpoint's error feedback and parameter " + std::to_string(i) +
                          ": it is of another model",
                      true);
    }
    residuals_[i].copy_(found->second);
    if (scaled) residuals_[i].div_(scale_);
  }
}

}  // namespace mn

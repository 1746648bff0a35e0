#include <cmath>
#include <map>
#include <utility>

#include <torch/torch.h>

#include <mn/core/error.hpp>
#include <mn/train/gradient_buffer.hpp>
#include <mn/train/tensor.hpp>

namespace mn {
namespace {

constexpr std::size_t kAlignment = 64;

std::size_t aligned(std::size_t bytes) { return (bytes + kAlignment - 1) / kAlignment * kAlignment; }

/// The parameter's own memory order where its memory has no gaps (channels_last stays so), else the contiguous one.
std::vector<std::int64_t> strides_for(const at::Tensor& parameter) {
  if (parameter.is_non_overlapping_and_dense()) return parameter.strides().vec();
  return at::empty(parameter.sizes(), at::TensorOptions(at::kMeta)).strides().vec();
}

/// The elements in the order in which they lie, whatever the strides.
BufferView message_of(const at::Tensor& view) { return buffer_view(view.as_strided({view.numel()}, {1})); }

}  // namespace

GradientBuffer::GradientBuffer(std::vector<at::Tensor> parameters, Communicator& comm)
    : parameters_(std::move(parameters)), views_(parameters_.size()) {
  for (const auto& parameter : parameters_) {
    if (parameter.device() != c10::Device(comm.device())) {
      throw ArgumentError("a parameter is on " + parameter.device().str() + ", but the communicator works on " +
                          comm.device().str() + ": call model->to(comm->device()) before the optimizer is made");
    }
  }
  std::vector<at::Tensor> before;
  for (const auto& parameter : parameters_) before.push_back(parameter.grad());
  lay_out(comm);
  zero();
  for (std::size_t i = 0; i < parameters_.size(); ++i) {
    if (before[i].defined()) parameters_[i].mutable_grad() = before[i];
  }
}

void GradientBuffer::lay_out(Communicator& comm) {
  // Equal dtypes lie together, float32 last so that the tail, which is float32, follows them in one message.
  std::map<std::pair<bool, at::ScalarType>, std::vector<std::size_t>> groups;
  groups[{true, at::kFloat}];
  for (std::size_t i = 0; i < parameters_.size(); ++i) {
    const auto dtype = parameters_[i].scalar_type();
    groups[{dtype == at::kFloat, dtype}].push_back(i);
  }
  std::map<at::ScalarType, std::int64_t> counts;
  const auto tail_count = static_cast<std::int64_t>(1 + parameters_.size());
  bytes_ = 0;
  for (const auto& [key, members] : groups) {
    std::int64_t& count = counts[key.second];
    for (const std::size_t i : members) count += parameters_[i].numel();
    if (key.first) count += tail_count;
    bytes_ += aligned(static_cast<std::size_t>(count) * c10::elementSize(key.second));
  }

  const c10::Device device(comm.device());
  std::byte* next = nullptr;
  if (device.is_cpu()) {
    host_memory_ = comm.allocate(bytes_);
    next = host_memory_.get();
  }
  for (const auto& [key, members] : groups) {
    const auto options = at::TensorOptions(key.second).device(device);
    const std::int64_t count = counts[key.second];
    const at::Tensor flat = device.is_cpu() ? at::from_blob(next, {count}, options) : at::zeros({count}, options);
    next += device.is_cpu() ? aligned(flat.nbytes()) : 0;
    auto* data = static_cast<std::byte*>(flat.data_ptr());
    for (const std::size_t i : members) {
      // Not flat.narrow(): views share one version counter, and each gradient needs its own.
      const auto& parameter = parameters_[i];
      views_[i].grad = at::from_blob(data, parameter.sizes(), strides_for(parameter), options);
      data += parameter.nbytes();
      messages_.push_back(message_of(views_[i].grad));
    }
    if (key.first) {
      tail_ = at::from_blob(data, {tail_count}, options);
      messages_.push_back(message_of(tail_));
    }
    flats_.push_back(flat);
  }
}

void GradientBuffer::zero() {
  for (auto& flat : flats_) flat.zero_();
  for (std::size_t i = 0; i < parameters_.size(); ++i) {
    views_[i].version = views_[i].grad._version();
    auto& grad = parameters_[i].mutable_grad();
    if (!grad.is_same(views_[i].grad)) grad = views_[i].grad;
  }
}

/// True if a backward (or the user) wrote this gradient since zero(); brings it into the buffer if it lives elsewhere.
bool GradientBuffer::collect(std::size_t i) {
  View& view = views_[i];
  auto& grad = parameters_[i].mutable_grad();
  if (!grad.defined()) {
    grad = view.grad;
    view.grad.zero_();  // a view that was written, then detached by set_to_none
    return false;
  }
  if (grad.is_same(view.grad)) return view.grad._version() != view.version;
  view.grad.copy_(grad.is_sparse() ? grad.to_dense() : grad);
  grad = view.grad;
  return true;
}

void GradientBuffer::scale(double factor) {
  for (auto& flat : flats_) flat.mul_(factor);
}

bool GradientBuffer::reduce(Communicator& comm, double weight) {
  const at::NoGradGuard no_grad;
  const at::Tensor tail = at::zeros({tail_.numel()}, at::kFloat);
  float* flags = tail.data_ptr<float>();
  for (std::size_t i = 0; i < parameters_.size(); ++i) flags[1 + i] = collect(i) ? 1.0F : 0.0F;
  if (weight != 1) scale(weight);
  flags[0] = static_cast<float>(weight);
  tail_.copy_(tail);

  const double share = 1.0 / comm.size();
  comm.allreduce_grad(messages_, share);

  // The tail was scaled with the rest: flags[0] is now the mean weight, exactly 1 where all weights are 1.
  const at::Tensor result = tail_.to(at::kCPU);
  const float* reduced = result.data_ptr<float>();
  if (reduced[0] == 0) return false;
  const bool all_ones = std::abs(reduced[0] - 1.0F) < 1e-6F;
  if (!all_ones) scale(1.0 / static_cast<double>(reduced[0]));
  for (std::size_t i = 0; i < parameters_.size(); ++i) {
    if (reduced[1 + i] == 0) parameters_[i].mutable_grad().reset();
  }
  return true;
}

void GradientBuffer::release() {
  for (auto& parameter : parameters_) {
    if (parameter.grad().defined()) parameter.mutable_grad() = parameter.grad().clone();
  }
}

}  // namespace mn

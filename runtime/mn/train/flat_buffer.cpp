#include <map>
#include <numeric>
#include <utility>

#include <ATen/core/Tensor.h>
#include <ATen/core/grad_mode.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/from_blob.h>
#include <ATen/ops/zeros.h>

#include <mn/tensor/tensor.hpp>
#include <mn/train/flat_buffer.hpp>

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
at::Tensor flattened(const at::Tensor& view) { return view.as_strided({view.numel()}, {1}); }

/// Members by dtype; float32 sorts last, so that the tail follows it.
using Groups = std::map<std::pair<bool, at::ScalarType>, std::vector<std::size_t>>;

Groups group_by_dtype(const std::vector<at::Tensor>& parameters, std::span<const std::size_t> order) {
  std::vector<std::size_t> all(parameters.size());
  std::iota(all.begin(), all.end(), std::size_t{0});
  if (!order.empty()) all.assign(order.begin(), order.end());
  Groups groups;
  groups[{true, at::kFloat}];  // the tail needs it
  for (const std::size_t i : all) {
    const auto dtype = parameters[i].scalar_type();
    groups[{dtype == at::kFloat, dtype}].push_back(i);
  }
  return groups;
}

}  // namespace

FlatBuffer::FlatBuffer(const std::vector<at::Tensor>& parameters, std::size_t tail_count, Communicator& comm,
                       std::span<const std::size_t> order)
    : parameters_(parameters), views_(parameters.size()), message_index_(parameters.size()) {
  const Groups groups = group_by_dtype(parameters, order);
  std::vector<std::int64_t> counts;
  for (const auto& [key, members] : groups) {
    std::int64_t count = key.first ? static_cast<std::int64_t>(tail_count) : 0;
    for (const std::size_t i : members) count += parameters[i].numel();
    counts.push_back(count);
    bytes_ += aligned(static_cast<std::size_t>(count) * c10::elementSize(key.second));
  }

  const c10::Device device(comm.device());
  if (device.is_cpu()) host_memory_ = comm.allocate(bytes_);
  std::byte* next = host_memory_.get();
  std::size_t group = 0;
  for (const auto& [key, members] : groups) {
    const auto options = at::TensorOptions(key.second).device(device);
    const std::int64_t count = counts[group++];
    flats_.push_back(device.is_cpu() ? at::from_blob(next, {count}, options) : at::zeros({count}, options));
    if (device.is_cpu()) next += aligned(flats_.back().nbytes());
    auto* data = static_cast<std::byte*>(flats_.back().data_ptr());
    for (const std::size_t i : members) {
      // Not narrow(): views share one version counter.
      views_[i] = at::from_blob(data, parameters[i].sizes(), strides_for(parameters[i]), options);
      data += parameters[i].nbytes();
      message_index_[i] = messages_.size();
      parameter_of_.emplace_back(i);
      message_tensors_.push_back(flattened(views_[i]));
      messages_.push_back(buffer_view(message_tensors_.back()));
    }
    if (key.first) {
      tail_ = at::from_blob(data, {static_cast<std::int64_t>(tail_count)}, options);
      parameter_of_.emplace_back();
      message_tensors_.push_back(tail_);
      messages_.push_back(buffer_view(tail_));
    }
  }
}

std::vector<std::string> FlatBuffer::names(std::size_t first, std::size_t count) const {
  std::vector<std::string> names;
  for (std::size_t m = first; m < first + count; ++m) {
    const auto i = parameter_of(m);
    names.push_back(i ? tensor_name(parameters_[*i], *i) : "the tail");
  }
  return names;
}

void FlatBuffer::scale(double factor) {
  for (auto& flat : flats_) flat.mul_(factor);
}

void FlatBuffer::copy_from(const FlatBuffer& other, std::size_t first, std::size_t count) {
  const at::NoGradGuard no_grad;
  for (std::size_t m = first; m < first + count; ++m) message_tensors_[m].copy_(other.message_tensors_[m]);
}

}  // namespace mn

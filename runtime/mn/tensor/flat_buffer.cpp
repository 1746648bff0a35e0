#include <mn/tensor/flat_buffer.hpp>

#include <algorithm>
#include <map>
#include <numeric>
#include <utility>

#include <ATen/core/LegacyTypeDispatch.h>
#include <ATen/core/Tensor.h>
#include <ATen/core/grad_mode.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/from_blob.h>
#include <ATen/ops/zeros.h>

#include <mn/comm/device/device_collectives.hpp>
#include <mn/core/log.hpp>
#include <mn/tensor/factor.hpp>
#include <mn/tensor/mean_numbers.hpp>
#include <mn/tensor/multi_tensor.hpp>
#include <mn/tensor/tensor.hpp>

namespace mn {
namespace {

constexpr std::size_t kGroupAlignment = 64;
constexpr std::int64_t kVectorBytes = 16;  // bytes of a device's widest loads
constexpr std::size_t kOwnTensors = 2;     // the buffer refers to a storage by two tensors: view and message

std::size_t aligned(std::size_t bytes) { return (bytes + kGroupAlignment - 1) / kGroupAlignment * kGroupAlignment; }

/// The strides of the parameter, or contiguous strides if the parameter's memory has gaps.
std::vector<std::int64_t> strides_for(const at::Tensor& parameter) {
  if (parameter.is_non_overlapping_and_dense()) return parameter.strides().vec();
  return at::empty(parameter.sizes(), at::TensorOptions(at::kMeta)).strides().vec();
}

/// Makes a tensor that does not own its memory. The device is given, because libtorch would ask CUDA for it, and CUDA
/// does not know the address of an empty tensor at the end of the memory.
at::Tensor tensor_at(std::byte* data, at::IntArrayRef sizes, at::IntArrayRef strides, at::ScalarType dtype,
                     c10::Device device) {
  return at::for_blob(data, sizes)
      .strides(strides)
      .options(at::TensorOptions(dtype).device(device))
      .target_device(device)
      .make_tensor();
}

at::Tensor flattened(const at::Tensor& view) {
  // With autograd the result would hold a reference to `view`, and let_go() would count it as a tensor of the program.
  const at::AutoDispatchBelowADInplaceOrView no_base;
  return view.as_strided({view.numel()}, {1});
}

/// The indices of the parameters of each dtype. The bool is true for the dtype of the tail, so this group is the last.
using Groups = std::map<std::pair<bool, at::ScalarType>, std::vector<std::size_t>>;

Groups group_by_dtype(const std::vector<at::Tensor>& parameters, std::span<const std::size_t> order) {
  std::vector<std::size_t> all(parameters.size());
  std::iota(all.begin(), all.end(), std::size_t{0});
  if (!order.empty()) all.assign(order.begin(), order.end());
  Groups groups;
  const at::ScalarType last = numbers_dtype(parameters);  // of the tail
  groups[{true, last}];                                   // makes the group, even if no parameter has the tail's dtype
  for (const std::size_t i : all) {
    const auto dtype = parameters[i].scalar_type();
    groups[{dtype == last, dtype}].push_back(i);
  }
  return groups;
}

}  // namespace

FlatBuffer::FlatBuffer(const std::vector<at::Tensor>& parameters, std::size_t tail_count, Communicator& comm,
                       std::span<const std::size_t> order)
    : parameters_(parameters), views_(parameters.size()), message_index_(parameters.size()), device_(comm.device()) {
  const Groups groups = group_by_dtype(parameters, order);
  std::vector<std::int64_t> counts;
  for (const auto& [key, members] : groups) {
    std::int64_t count = key.first ? static_cast<std::int64_t>(tail_count) : 0;
    for (const std::size_t i : members) count += room_for(parameters[i]);
    counts.push_back(count);
    bytes_ += aligned(static_cast<std::size_t>(count) * c10::elementSize(key.second));
  }

  if (device_.is_cpu()) memory_.push_back(comm.allocate(bytes_));
  std::byte* host = device_.is_cpu() ? memory_.front().get() : nullptr;
  std::size_t group = 0;
  for (const auto& [key, members] : groups) {
    std::byte* data = add_flat(counts[group++], key.second, host, comm);
    if (device_.is_cpu()) host += aligned(flats_.back().nbytes());
    for (const std::size_t i : members) data = add_parameter(i, data);
    if (key.first) add_tail(static_cast<std::int64_t>(tail_count), data);
  }
  is_sent_.assign(messages_.size(), true);
}

/// Adds memory for all parameters of one dtype, and returns its address: `host` on the CPU; on a device new memory,
/// which NCCL may have registered.
std::byte* FlatBuffer::add_flat(std::int64_t count, at::ScalarType dtype, std::byte* host, Communicator& comm) {
  const auto options = at::TensorOptions(dtype).device(device_);
  DeviceCollectives* const device = device_.is_cpu() || count == 0 ? nullptr : comm.device_collectives();
  if (device_.is_cpu()) {
    flats_.push_back(at::from_blob(host, {count}, options));
  } else if (auto fast =
                 device ? device->allocate(static_cast<std::size_t>(count) * c10::elementSize(dtype)) : nullptr) {
    flats_.push_back(tensor_at(fast.get(), {count}, {1}, dtype, device_).zero_());
    memory_.push_back(std::move(fast));
  } else {
    flats_.push_back(at::zeros({count}, options));
  }
  return static_cast<std::byte*>(flats_.back().data_ptr());
}

/// The number of elements from the beginning of the parameter's memory to the beginning of the next tensor.
std::int64_t FlatBuffer::room_for(const at::Tensor& parameter) const {
  const std::int64_t step = device_.is_cpu() ? 1 : kVectorBytes / static_cast<std::int64_t>(parameter.element_size());
  return (parameter.numel() + step - 1) / step * step;
}

at::Tensor FlatBuffer::view_at(std::size_t i, std::byte* data) const {
  const at::Tensor& parameter = parameters_[i];
  // Views made by narrow() would share a version counter and a storage. But each view needs its own version counter,
  // and its own storage, which can move to new memory: invariants (2) and (4) of flat_buffer.hpp.
  return tensor_at(data, parameter.sizes(), strides_for(parameter), parameter.scalar_type(), device_);
}

/// Adds the view and the message of parameter i at `data`. Returns the end of the parameter's memory.
std::byte* FlatBuffer::add_parameter(std::size_t i, std::byte* data) {
  views_[i] = view_at(i, data);
  message_index_[i] = messages_.size();
  parameter_of_.emplace_back(i);
  message_tensors_.push_back(flattened(views_[i]));
  messages_.push_back(buffer_view(message_tensors_.back()));
  messages_.back().count = static_cast<std::size_t>(room_for(parameters_[i]));
  return data + messages_.back().bytes();
}

FlatBuffer::~FlatBuffer() {
  try {
    for (std::size_t m = 0; m < messages_.size(); ++m) let_go(m);
  } catch (const std::exception& error) {
    log_error(std::string("gradients that the program still holds keep their buffer's memory: ") + error.what());
    static_cast<void>(new std::pair(memory_, flats_));  // never freed: the program's tensors use it
  }
}

void FlatBuffer::let_go(std::size_t m) {
  const auto i = parameter_of_[m];
  if (!i) return;
  at::Tensor& view = views_[*i];
  const bool is_held = view.use_count() > 1 || view.storage().use_count() > kOwnTensors;
  if (!is_held) return;
  const at::NoGradGuard no_grad;
  auto* const data = static_cast<std::byte*>(view.mutable_data_ptr());
  const at::Tensor kept = view.clone();
  // The program still holds the view and must keep its values: invariant (4) of flat_buffer.hpp. The view's storage
  // gets a private copy, and a new tensor in the old memory becomes the view.
  view.storage().set_data_ptr_noswap(kept.storage().set_data_ptr(c10::DataPtr(nullptr, device_)));
  view = view_at(*i, data);
  message_tensors_[m] = flattened(view);
}

void FlatBuffer::add_tail(std::int64_t count, std::byte* data) {
  tail_ = tensor_at(data, {count}, {1}, flats_.back().scalar_type(), device_);
  parameter_of_.emplace_back();
  message_tensors_.push_back(tail_);
  messages_.push_back(buffer_view(tail_));
}

double FlatBuffer::without_rounding(double mean) const { return mn::without_rounding(mean, tail_.scalar_type()); }

std::vector<std::string> FlatBuffer::names(std::size_t first, std::size_t count) const {
  std::vector<std::string> names;
  for (std::size_t m = first; m < first + count; ++m) {
    const auto i = parameter_of(m);
    if (!is_sent_[m]) continue;
    names.push_back(i ? tensor_name(parameters_[*i], *i) : "the tail");
  }
  return names;
}

std::vector<BufferView> FlatBuffer::sent(std::size_t first, std::size_t count) const {
  std::vector<BufferView> sent;
  for (std::size_t m = first; m < first + count; ++m) {
    if (is_sent_[m]) sent.push_back(messages_[m]);
  }
  return sent;
}

void FlatBuffer::send_only(const std::vector<bool>& parameters) {
  const at::NoGradGuard no_grad;
  for (std::size_t i = 0; i < parameters.size(); ++i) {
    const std::size_t m = message_index_[i];
    const bool was_sent = is_sent_[m];
    is_sent_[m] = parameters[i];
    if (!was_sent || parameters[i]) continue;
    let_go(m);
    message_tensors_[m].zero_();
  }
}

void FlatBuffer::scale(double factor) {
  for (auto& flat : flats_) flat.mul_(exact_factor(factor));
}

void FlatBuffer::copy_from(const FlatBuffer& other, std::size_t first, std::size_t count, double factor) {
  const at::NoGradGuard no_grad;
  std::vector<TensorCopy> together;
  for (std::size_t m = first; m < first + count; ++m) {
    if (!device_.is_cpu()) {
      together.push_back({other.message_tensors_[m], message_tensors_[m], factor});
      continue;
    }
    message_tensors_[m].copy_(other.message_tensors_[m]);
    if (factor != 1) message_tensors_[m].mul_(exact_factor(factor));
  }
  if (!together.empty()) copy_on_device(together);
}

}  // namespace mn

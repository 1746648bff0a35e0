#include <mn/tensor/tensor.hpp>

#include <unordered_set>
#include <utility>

#include <ATen/DeviceAccelerator.h>
#include <ATen/core/Tensor.h>
#include <ATen/core/grad_mode.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/empty_like.h>
#include <ATen/ops/zeros_like.h>
#include <c10/core/impl/VirtualGuardImpl.h>
#include <torch/csrc/autograd/variable.h>

#include <mn/comm/communicator.hpp>
#include <mn/core/checksum.hpp>
#include <mn/core/classic_stream.hpp>
#include <mn/core/error.hpp>
#include <mn/core/json.hpp>
#include <mn/tensor/modules.hpp>
#include <mn/tensor/native_stream.hpp>
#include <mn/tensor/scalar_type.hpp>

namespace mn {
namespace {

DType element_type(const at::Tensor& tensor) {
  if (const auto type = dtype_of(tensor.scalar_type())) return *type;
  throw ArgumentError(std::string("a tensor of dtype ") + toString(tensor.scalar_type()) +
                      " can't be sent: convert it to bool, an integer or a float type first");
}

/// The device type by which libtorch calls mn's GPUs: the accelerator type of this libtorch.
c10::DeviceType gpu_type() { return at::accelerator::getAccelerator().value_or(c10::kCUDA); }

Device memory_device(const at::Tensor& tensor) {
  if (tensor.is_cpu()) return {};
  if (tensor.device().type() == gpu_type()) return {DeviceType::kCuda, static_cast<int>(tensor.get_device())};
  throw ArgumentError("a tensor on " + tensor.device().str() + " can't be sent: move it to the CPU or a GPU");
}

void* current_stream_handle(Device device) {
  return device.type == DeviceType::kCpu ? nullptr : native_stream(current_stream(device));
}

std::string form_of(const at::Tensor& tensor) {
  if (!tensor.defined()) return "undefined";
  OutText text;
  text << toString(tensor.scalar_type()) << " " << tensor.sizes();
  return text.str();
}

/// Collective: throws an equal ArgumentError on every rank if dtypes or shapes differ between ranks: a broadcast of
/// different tensors would hang or garble values.
void check_same_forms(Communicator& comm, const std::vector<at::Tensor>& tensors) {
  nlohmann::json own = nlohmann::json::array();
  for (const auto& tensor : tensors) own.push_back(form_of(tensor));
  if (same_on_all_ranks(hash64(json_text(own)), comm)) return;
  const auto all = comm.allgather_obj(own);
  std::size_t rank = 1;
  while (all[rank] == all[0]) ++rank;
  std::size_t i = 0;
  while (i < all[0].size() && i < all[rank].size() && all[0][i] == all[rank][i]) ++i;
  const auto form_on = [&](std::size_t r) {
    return (i < all[r].size() ? all[r][i].get<std::string>() : "absent") + " on rank " + std::to_string(r);
  };
  const std::string name = i < tensors.size() ? tensor_name(tensors[i], i) : "parameter " + std::to_string(i);
  throw ArgumentError("the ranks' models differ: " + name + " is " + form_on(0) + " and " + form_on(rank) +
                          ": make the same model on every rank",
                      true);
}

/// Throws ArgumentError if elements of a tensor share memory, as after expand(): it can't receive elements.
void refuse_shared_elements(const std::vector<at::Tensor>& tensors) {
  for (std::size_t i = 0; i < tensors.size(); ++i) {
    const at::Tensor& tensor = tensors[i];
    if (!tensor.defined() || tensor.layout() != at::kStrided || tensor.numel() == 0) continue;
    for (std::int64_t d = 0; d < tensor.dim(); ++d) {
      if (tensor.size(d) == 1 || tensor.stride(d) != 0) continue;
      throw ArgumentError(tensor_name(tensor, i) + " has elements that share memory, as expand() makes them, which " +
                              "can't be received or loaded: register its clone()",
                          true);
    }
  }
}

/// Returns the tensor to reduce for the parameter's gradient, in the parameter's memory order, which is equal on all
/// ranks: the gradient itself, or a copy if its memory order differs. A missing gradient counts as zero.
at::Tensor gradient_to_reduce(const at::Tensor& parameter) {
  const at::Tensor& own = parameter.grad();
  if (!own.defined()) return at::zeros_like(parameter);
  if (own.is_sparse()) return at::empty_like(parameter).copy_(own.to_dense());
  at::Tensor copy = at::empty_like(parameter);
  const bool same_order = own.is_non_overlapping_and_dense() && own.strides() == copy.strides();
  return same_order ? own : copy.copy_(own);
}

/// Makes `reduced` the parameter's gradient. Overwrites a dense gradient in place, as the program may hold it, too.
void keep_reduced(const at::Tensor& parameter, const at::Tensor& reduced) {
  auto& grad = parameter.mutable_grad();
  if (!grad.defined() || grad.is_sparse()) {
    grad = reduced;
  } else if (!grad.is_same(reduced)) {
    grad.copy_(reduced);
  }
}

// broadcast_data() sends tensors of up to 4 MiB together, in messages of up to 16 MiB. A larger tensor is sent alone.
constexpr std::size_t kAloneBytes = std::size_t{4} << 20;
constexpr std::size_t kTogetherBytes = std::size_t{16} << 20;

/// False for a sharded parameter that is not whole now: each rank has a piece, and no rank has all values.
bool has_memory(const at::Tensor& tensor) { return !tensor.has_storage() || tensor.storage().data() != nullptr; }

std::size_t bytes_of(const at::Tensor& tensor) {
  return static_cast<std::size_t>(tensor.numel()) * tensor.element_size();
}

void bcast_bytes(Communicator& comm, const at::Tensor& contiguous, const std::string& name, int root) {
  const Device device = memory_device(contiguous);
  comm.bcast({contiguous.data_ptr(), bytes_of(contiguous), DType::kUInt8, device, current_stream_handle(device)}, root,
             name);
}

/// Broadcasts one tensor of any strides. Its elements are sent as bytes, in logical order.
void bcast_alone(Communicator& comm, const at::Tensor& tensor, const std::string& name, int root) {
  const at::Tensor dense = tensor.is_contiguous() ? tensor.detach() : tensor.detach().contiguous();
  bcast_bytes(comm, dense, name, root);
  if (!tensor.is_contiguous()) tensor.detach().copy_(dense);
}

/// Collects small tensors of any dtypes on a device, to broadcast them in one message.
class Bundle {
 public:
  [[nodiscard]] bool takes(const at::Tensor& tensor) const {
    return parts_.empty() ||
           (parts_.front().device() == tensor.device() && bytes_ + bytes_of(tensor) <= kTogetherBytes);
  }
  void add(const at::Tensor& tensor, const std::string& name) {
    if (parts_.empty()) first_name_ = name;
    last_name_ = name;
    parts_.push_back(tensor.detach());
    offsets_.push_back(bytes_);
    constexpr std::size_t kAlignment = 16;  // suits every dtype
    bytes_ += (bytes_of(tensor) + kAlignment - 1) / kAlignment * kAlignment;
  }
  void bcast(Communicator& comm, int root) {
    const Bundle sent = std::exchange(*this, Bundle());
    if (sent.parts_.size() == 1) return bcast_alone(comm, sent.parts_[0], sent.first_name_, root);
    if (!sent.parts_.empty()) sent.bcast_together(comm, root);
  }

 private:
  void bcast_together(Communicator& comm, int root) const {
    const at::Tensor whole = at::empty({static_cast<std::int64_t>(bytes_)}, parts_[0].options().dtype(at::kByte));
    const auto view = [&](std::size_t i) {
      const at::Tensor& part = parts_[i];
      return whole.narrow(0, static_cast<std::int64_t>(offsets_[i]), static_cast<std::int64_t>(bytes_of(part)))
          .view(part.scalar_type())
          .view(part.sizes());
    };
    const bool sends = comm.rank() == root;
    for (std::size_t i = 0; sends && i < parts_.size(); ++i) view(i).copy_(parts_[i]);
    bcast_bytes(comm, whole, first_name_ + " to " + last_name_, root);
    for (std::size_t i = 0; !sends && i < parts_.size(); ++i) parts_[i].copy_(view(i));
  }

  std::vector<at::Tensor> parts_;
  std::vector<std::size_t> offsets_;  // [parts] in bytes
  std::size_t bytes_ = 0;
  std::string first_name_;
  std::string last_name_;
};

}  // namespace

c10::Device DeviceTraits<c10::Device>::from(Device device) {
  if (device.type == DeviceType::kCpu) return c10::Device(c10::kCPU);
  return c10::Device(gpu_type(), static_cast<c10::DeviceIndex>(device.index));
}

c10::Stream current_stream(Device device) {
  const c10::Device where(device);
  return c10::impl::VirtualGuardImpl(where.type()).getStream(where);
}

std::vector<BufferView> on_current_stream(std::span<const BufferView> buffers) {
  std::vector<BufferView> views;
  for (const BufferView& buffer : buffers) views.push_back(buffer.on_stream(current_stream_handle(buffer.device)));
  return views;
}

void name_tensors(const torch::nn::Module& model) {
  for (const auto& [name, tensor] : named_tensors(model)) torch::autograd::impl::set_name(tensor, name);
}

std::string tensor_name(const at::Tensor& tensor, std::size_t i) {
  return tensor.name().empty() ? "parameter " + std::to_string(i) : tensor.name();
}

BufferView buffer_view(const at::Tensor& tensor) {
  if (!tensor.defined()) throw ArgumentError("an undefined tensor can't be sent");
  if (!tensor.is_contiguous())
    throw ArgumentError("a tensor that is not contiguous can't be sent: call contiguous() first");
  const Device device = memory_device(tensor);
  return {tensor.data_ptr(), static_cast<std::size_t>(tensor.numel()), element_type(tensor), device,
          current_stream_handle(device)};
}

std::vector<at::Tensor> differentiable(std::vector<at::Tensor> tensors) {
  std::unordered_set<const c10::TensorImpl*> seen;
  std::erase_if(tensors, [&](const at::Tensor& tensor) {
    return at::isIntegralType(tensor.scalar_type(), true) || !seen.insert(tensor.unsafeGetTensorImpl()).second;
  });
  return tensors;
}

void broadcast_tensors(Communicator& comm, const torch::nn::Module& model, int root) {
  broadcast_tensors(comm, parameters_of(model), root);
  broadcast_tensors(comm, buffers_of(model), root);
}

void broadcast_tensors(Communicator& comm, const std::vector<at::Tensor>& tensors, int root) {
  check_same_forms(comm, tensors);
  refuse_shared_elements(tensors);
  Bundle small;
  for (std::size_t i = 0; i < tensors.size(); ++i) {
    const at::Tensor& tensor = tensors[i];
    if (!tensor.defined() || tensor.numel() == 0 || !has_memory(tensor)) continue;
    if (bytes_of(tensor) > kAloneBytes) {
      bcast_alone(comm, tensor, tensor_name(tensor, i), root);
      continue;
    }
    if (!small.takes(tensor)) small.bcast(comm, root);
    small.add(tensor, tensor_name(tensor, i));
  }
  small.bcast(comm, root);
}

void average_gradients(Communicator& comm, const torch::nn::Module& model) {
  average_gradients(comm, parameters_of(model));
}

void average_gradients(Communicator& comm, const std::vector<at::Tensor>& parameters) {
  const at::NoGradGuard no_grad;
  const std::vector<at::Tensor> all = differentiable(parameters);
  std::vector<std::uint8_t> written;
  for (const auto& parameter : all) written.push_back(parameter.grad().defined() ? 1 : 0);
  comm.allreduce(written, ReduceOp::kMax);
  std::vector<at::Tensor> sums(all.size());
  std::vector<BufferView> buffers;
  std::vector<std::string> names;
  for (std::size_t i = 0; i < all.size(); ++i) {
    if (written[i] == 0) continue;
    sums[i] = gradient_to_reduce(all[i]);
    buffers.push_back(buffer_view(sums[i].as_strided({sums[i].numel()}, {1})));
    if (comm.debug()) names.push_back(tensor_name(all[i], i));
  }
  comm.sum_gradients(buffers, 1.0 / comm.size(), names);
  for (std::size_t i = 0; i < all.size(); ++i) {
    if (written[i] != 0) keep_reduced(all[i], sums[i]);
  }
}

}  // namespace mn

#include <c10/core/impl/VirtualGuardImpl.h>
#include <torch/torch.h>

#include <mn/comm/communicator.hpp>
#include <mn/core/error.hpp>
#include <mn/train/gradient_buffer.hpp>
#include <mn/train/tensor.hpp>

namespace mn {
namespace {

DType element_type(const at::Tensor& tensor) {
  switch (tensor.scalar_type()) {
    case at::kByte:
    case at::kChar:
    case at::kBool:
      return DType::kUInt8;
    case at::kInt:
      return DType::kInt32;
    case at::kLong:
      return DType::kInt64;
    case at::kHalf:
      return DType::kFloat16;
    case at::kBFloat16:
      return DType::kBFloat16;
    case at::kFloat:
      return DType::kFloat32;
    case at::kDouble:
      return DType::kFloat64;
    default:
      throw ArgumentError(std::string("a tensor of dtype ") + toString(tensor.scalar_type()) +
                          " can't be sent: convert it to uint8, int32, int64 or a float type first");
  }
}

Device memory_device(const at::Tensor& tensor) {
  if (tensor.is_cuda()) return {DeviceType::kCuda, static_cast<int>(tensor.get_device())};
  if (tensor.is_cpu()) return {};
  throw ArgumentError("a tensor on " + tensor.device().str() + " can't be sent: move it to the CPU or a CUDA device");
}

/// "fc.bias, Float [3, 4]"
std::string description(const at::Tensor& tensor, std::size_t i) {
  std::ostringstream text;
  text << tensor_name(tensor, i) << ", " << toString(tensor.scalar_type()) << " " << tensor.sizes();
  return text.str();
}

/// Any tensor's bytes, in the order in which they lie, go from root to all.
void bcast_tensor(Communicator& comm, const at::Tensor& tensor, std::size_t i, int root) {
  if (!tensor.defined() || tensor.numel() == 0) return;
  const at::Tensor dense = tensor.is_contiguous() ? tensor.detach() : tensor.detach().contiguous();
  const std::size_t bytes = static_cast<std::size_t>(dense.numel()) * dense.element_size();
  comm.bcast({dense.data_ptr(), bytes, DType::kUInt8, memory_device(dense)}, root,
             comm.debug() ? description(tensor, i) : std::string());
  if (!tensor.is_contiguous()) tensor.detach().copy_(dense);
}

}  // namespace

Device::operator c10::Device() const {
  if (type == DeviceType::kCpu) return c10::Device(c10::kCPU);
  return c10::Device(c10::kCUDA, static_cast<c10::DeviceIndex>(index));
}

c10::Stream current_stream(Device device) {
  const c10::Device where(device);
  return c10::impl::VirtualGuardImpl(where.type()).getStream(where);
}

void name_tensors(const torch::nn::Module& model) {
  for (const auto& item : model.named_parameters()) torch::autograd::impl::set_name(item.value(), item.key());
  for (const auto& item : model.named_buffers()) torch::autograd::impl::set_name(item.value(), item.key());
}

std::string tensor_name(const at::Tensor& tensor, std::size_t i) {
  return tensor.name().empty() ? "parameter " + std::to_string(i) : tensor.name();
}

BufferView buffer_view(const at::Tensor& tensor) {
  if (!tensor.defined()) throw ArgumentError("an undefined tensor can't be sent");
  if (!tensor.is_contiguous())
    throw ArgumentError("a tensor that is not contiguous can't be sent: call contiguous() first");
  return {tensor.data_ptr(), static_cast<std::size_t>(tensor.numel()), element_type(tensor), memory_device(tensor)};
}

void Communicator::broadcast_data(torch::nn::Module& model, int root) {
  broadcast_data(model.parameters(), root);
  broadcast_data(model.buffers(), root);
}

void Communicator::broadcast_data(const std::vector<at::Tensor>& tensors, int root) {
  for (std::size_t i = 0; i < tensors.size(); ++i) bcast_tensor(*this, tensors[i], i, root);
}

void Communicator::allreduce_grad(torch::nn::Module& model) { allreduce_grad(model.parameters()); }

void Communicator::allreduce_grad(const std::vector<at::Tensor>& parameters) {
  GradientBuffer gradients(parameters, *this);
  gradients.collect(1.0);
  const auto messages = gradients.flat().messages();
  allreduce_grad(messages, 1.0 / size(), gradients.flat().names(0, messages.size()));
  static_cast<void>(gradients.finish());
  gradients.release();
}

}  // namespace mn

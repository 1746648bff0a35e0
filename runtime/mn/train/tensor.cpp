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

/// Any tensor's bytes, in the order in which they lie, go from root to all.
void bcast_tensor(Communicator& comm, const at::Tensor& tensor, int root) {
  if (!tensor.defined() || tensor.numel() == 0) return;
  const at::Tensor dense = tensor.is_contiguous() ? tensor.detach() : tensor.detach().contiguous();
  const std::size_t bytes = static_cast<std::size_t>(dense.numel()) * dense.element_size();
  comm.bcast({dense.data_ptr(), bytes, DType::kUInt8, memory_device(dense)}, root);
  if (!tensor.is_contiguous()) tensor.detach().copy_(dense);
}

}  // namespace

Device::operator c10::Device() const {
  if (type == DeviceType::kCpu) return c10::Device(c10::kCPU);
  return c10::Device(c10::kCUDA, static_cast<c10::DeviceIndex>(index));
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
  for (const auto& tensor : tensors) bcast_tensor(*this, tensor, root);
}

void Communicator::allreduce_grad(torch::nn::Module& model) { allreduce_grad(model.parameters()); }

void Communicator::allreduce_grad(const std::vector<at::Tensor>& parameters) {
  GradientBuffer gradients(parameters, *this);
  gradients.collect(1.0);
  allreduce_grad(gradients.flat().messages(), 1.0 / size());
  static_cast<void>(gradients.finish());
  gradients.release();
}

}  // namespace mn

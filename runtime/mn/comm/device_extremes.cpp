#include <mn/comm/device_extremes.hpp>
#include <mn/comm/pack.hpp>

namespace mn {
namespace {

double sign_of(ReduceOp op) { return op == ReduceOp::kMin ? -1 : 1; }

}  // namespace

bool DeviceExtremes::takes(DType dtype, ReduceOp op) {
  const bool is_float = dtype >= DType::kFloat16 && dtype <= DType::kFloat64;
  return is_float && (op == ReduceOp::kMin || op == ReduceOp::kMax);
}

BufferView DeviceExtremes::keys_of(ConstBufferView values, double sign, const CudaStream& stream) {
  const DType type = values.dtype == DType::kFloat64 ? DType::kInt64 : DType::kInt32;
  const BufferView keys(scratch_.reserve(values.count * size_of(type), stream), values.count, type, values.device);
  keys_on_device({values.data, keys.data, values.count}, values.dtype, sign, stream.handle());
  return keys;
}

void DeviceExtremes::allreduce(BufferView buffer, ReduceOp op, Nccl& nccl, const CudaStream& stream) {
  const double sign = sign_of(op);
  const BufferView keys = keys_of(buffer, sign, stream);
  nccl.allreduce(keys, ReduceOp::kMax, 1.0, stream);
  values_of_keys_on_device({keys.data, buffer.data, buffer.count}, buffer.dtype, sign, stream.handle());
}

void DeviceExtremes::reduce_scatter(ConstBufferView send, BufferView recv, ReduceOp op, Nccl& nccl,
                                    const CudaStream& stream) {
  const double sign = sign_of(op);
  const BufferView keys = keys_of(send, sign, stream);
  const BufferView own = keys.slice(static_cast<std::size_t>(nccl.rank()) * recv.count, recv.count);
  nccl.reduce_scatter(keys, own, ReduceOp::kMax, 1.0, stream);
  values_of_keys_on_device({own.data, recv.data, recv.count}, recv.dtype, sign, stream.handle());
}

}  // namespace mn

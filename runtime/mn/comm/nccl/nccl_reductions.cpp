#include <mn/comm/nccl/nccl_reductions.hpp>

#include <mn/comm/device/pack.hpp>

namespace mn {

NcclReductions::Way NcclReductions::way_for(DType dtype, ReduceOp op, int ranks) {
  using enum Way::Form;
  const bool is_half = dtype == DType::kFloat16 || dtype == DType::kBFloat16;
  // NCCL's average divides after the sum, and a sum in 16 bits may overflow.
  if (op == ReduceOp::kAverage) {
    return {is_half ? kWidened : kAsTheyAre, is_half ? DType::kFloat32 : dtype, ReduceOp::kSum, 1.0 / ranks, 1};
  }
  // A maximum of keys: NaNs have the largest keys, so the result is NaN if any element is NaN.
  if (is_float(dtype) && (op == ReduceOp::kMin || op == ReduceOp::kMax)) {
    const DType key = dtype == DType::kFloat64 ? DType::kInt64 : DType::kInt32;
    return {kKeys, key, ReduceOp::kMax, 1, op == ReduceOp::kMin ? -1.0 : 1.0};
  }
  return {kAsTheyAre, dtype, op, 1, 1};
}

BufferView NcclReductions::converted(ConstBufferView values, const Way& way, const CudaStream& stream) {
  const BufferView wire(scratch_.reserve(values.count * size_of(way.dtype), stream), values.count, way.dtype,
                        values.device);
  const PackPiece piece{values.data, wire.data, values.count};
  if (way.form == Way::Form::kKeys) {
    keys_on_device(piece, values.dtype, way.sign, stream.handle());
  } else {
    pack_on_device({&piece, 1}, values.dtype, way.dtype, 1, stream.handle());
  }
  return wire;
}

void NcclReductions::convert_back(ConstBufferView from, BufferView to, const Way& way, const CudaStream& stream) {
  const PackPiece piece{from.data, to.data, to.count};
  if (way.form == Way::Form::kKeys) {
    values_of_keys_on_device(piece, to.dtype, way.sign, stream.handle());
  } else if (from.data != to.data || way.scale != 1) {
    pack_on_device({&piece, 1}, way.dtype, to.dtype, way.scale, stream.handle());
  }
}

void NcclReductions::allreduce(BufferView buffer, ReduceOp op, Nccl& nccl, const CudaStream& stream) {
  const Way way = way_for(buffer.dtype, op, nccl.size());
  const bool as_is = way.form == Way::Form::kAsTheyAre;
  const BufferView wire = as_is ? buffer : converted(buffer, way, stream);
  nccl.allreduce(wire, way.op, stream);
  convert_back(wire, buffer, way, stream);
}

void NcclReductions::reduce(ConstBufferView send, BufferView recv, ReduceOp op, int root, Nccl& nccl,
                            const CudaStream& stream) {
  const Way way = way_for(send.dtype, op, nccl.size());
  const bool as_is = way.form == Way::Form::kAsTheyAre;
  const BufferView wire = as_is ? recv : converted(send, way, stream);
  nccl.reduce(as_is ? send : wire, wire, way.op, root, stream);
  // Only on the root does `wire` hold a result.
  if (nccl.rank() == root) convert_back(wire, recv, way, stream);
}

void NcclReductions::reduce_scatter(ConstBufferView send, BufferView recv, ReduceOp op, Nccl& nccl,
                                    const CudaStream& stream) {
  const Way way = way_for(send.dtype, op, nccl.size());
  if (way.form == Way::Form::kAsTheyAre) {
    nccl.reduce_scatter(send, recv, way.op, stream);
    return convert_back(recv, recv, way, stream);
  }
  const BufferView wire = converted(send, way, stream);
  const BufferView own = wire.slice(static_cast<std::size_t>(nccl.rank()) * recv.count, recv.count);
  nccl.reduce_scatter(wire, own, way.op, stream);
  convert_back(own, recv, way, stream);
}

}  // namespace mn

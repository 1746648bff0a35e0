/// Minima and maxima of floats on a GPU in which a NaN stays one. NCCL's own drop it, as fminf() and fmaxf() do.
///
/// The backends with NCCL call it, on all ranks at once. Floats become integers of the same order, NaNs the largest,
/// whose maximum NCCL takes; a minimum is the negative of the maximum of the negatives.
///
/// Cost beside NCCL's: two kernels, which read and write every element once, and device memory of 4 bytes for each
/// element, 8 for float64. 16-bit floats travel as 4 bytes.
#pragma once

#include <mn/comm/device_scratch.hpp>
#include <mn/comm/nccl.hpp>
#include <mn/core/buffer.hpp>

namespace mn {

class DeviceExtremes {
 public:
  /// Whether this reduction is one for this class.
  [[nodiscard]] static bool takes(DType dtype, ReduceOp op);
  /// As Nccl's.
  void allreduce(BufferView buffer, ReduceOp op, Nccl& nccl, const CudaStream& stream);
  void reduce_scatter(ConstBufferView send, BufferView recv, ReduceOp op, Nccl& nccl, const CudaStream& stream);

 private:
  [[nodiscard]] BufferView keys_of(ConstBufferView values, double sign, const CudaStream& stream);

  DeviceScratch scratch_;
};

}  // namespace mn

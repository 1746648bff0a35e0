/// Reductions on a GPU in full: NCCL's minima and maxima drop NaNs, as fminf() and fmaxf() do, and it would compute
/// averages of 16-bit floats in 16 bits.
///
/// The backends with NCCL call it, on all ranks at once. For minima and maxima floats become integers of the same
/// order, NaNs the largest, whose maximum NCCL takes; a minimum is the negative of the maximum of the negatives. For
/// averages 16-bit floats become float32. All else NCCL reduces as it lies.
///
/// Cost where elements are converted, beside NCCL's: two kernels, which read and write every element once, and device
/// memory of 4 bytes for each element, 8 for float64, which is also what travels.
#pragma once

#include <mn/comm/device/device_scratch.hpp>
#include <mn/comm/nccl/nccl.hpp>
#include <mn/core/buffer.hpp>

namespace mn {

class NcclReductions {
 public:
  // As the calls of DeviceCollectives, enqueued on `stream`.
  void allreduce(BufferView buffer, ReduceOp op, Nccl& nccl, const CudaStream& stream);
  void reduce(ConstBufferView send, BufferView recv, ReduceOp op, int root, Nccl& nccl, const CudaStream& stream);
  void reduce_scatter(ConstBufferView send, BufferView recv, ReduceOp op, Nccl& nccl, const CudaStream& stream);

 private:
  /// What NCCL is asked for, and what elements become before.
  struct Way {
    enum class Form { kAsTheyAre, kWidened, kKeys } form;
    DType dtype;   ///< what travels
    ReduceOp op;   ///< NCCL's
    double scale;  ///< NCCL's
    double sign;   ///< sign of keys: -1 where a minimum becomes a maximum
  };
  [[nodiscard]] static Way way_for(DType dtype, ReduceOp op, int ranks);
  [[nodiscard]] BufferView converted(ConstBufferView values, const Way& way, const CudaStream& stream);
  static void convert_back(ConstBufferView from, BufferView to, const Way& way, const CudaStream& stream);

  DeviceScratch scratch_;
};

}  // namespace mn

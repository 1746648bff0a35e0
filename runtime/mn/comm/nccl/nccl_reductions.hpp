/// Reductions by NCCL on a GPU, with the results that mn promises. NCCL's own minima and maxima would drop NaNs, and
/// NCCL would average 16-bit floats in 16 bits. For minima and maxima, floats are mapped to integers (keys) with the
/// same order, and NaNs to the largest integers. NCCL takes the maximum of the keys; a minimum is computed as the
/// negative of the maximum of the negatives. For averages, 16-bit floats are converted to float32, and a kernel
/// multiplies the sum by 1/n.
///
/// Cost of a conversion: two kernels, which read and write every element once, and device memory of 4 bytes for each
/// element (8 for float64). NCCL sends these 4 or 8 bytes for each element. Cost of an average without a conversion:
/// one kernel.
#pragma once

#include <mn/comm/device/device_scratch.hpp>
#include <mn/comm/nccl/nccl.hpp>
#include <mn/core/buffer.hpp>

namespace mn {

class NcclReductions {
 public:
  // These functions make the reductions of DeviceCollectives. They enqueue their work on `stream`.
  void allreduce(BufferView buffer, ReduceOp op, Nccl& nccl, const CudaStream& stream);
  void reduce(ConstBufferView send, BufferView recv, ReduceOp op, int root, Nccl& nccl, const CudaStream& stream);
  void reduce_scatter(ConstBufferView send, BufferView recv, ReduceOp op, Nccl& nccl, const CudaStream& stream);

 private:
  /// How a reduction is made: which conversion the elements need before NCCL reduces them, and what NCCL then does.
  struct Way {
    enum class Form { kAsTheyAre, kWidened, kKeys } form;
    DType dtype;   ///< dtype of the elements that NCCL reduces
    ReduceOp op;   ///< NCCL's operator
    double scale;  ///< multiplies NCCL's result
    double sign;   ///< multiplies floats before they become keys: -1 turns a minimum into a maximum
  };
  [[nodiscard]] static Way way_for(DType dtype, ReduceOp op, int ranks);
  [[nodiscard]] BufferView converted(ConstBufferView values, const Way& way, const CudaStream& stream);
  /// Converts NCCL's result `from` to the dtype of `to`; both are the same memory if nothing was converted.
  static void convert_back(ConstBufferView from, BufferView to, const Way& way, const CudaStream& stream);

  DeviceScratch scratch_;
};

}  // namespace mn

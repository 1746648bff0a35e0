/// Reductions by NCCL on a GPU, with the results that mn promises. NCCL's own minima and maxima would drop NaNs, so
/// floats are mapped to integers (keys) in the same order, NaNs to the largest. NCCL takes the maximum of the keys; a
/// minimum is the negative of the maximum of the negatives. NCCL's own averages of 16-bit floats would be computed in
/// 16 bits, so they are converted to float32, and a kernel multiplies the sum by 1/n.
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
  // The reductions of DeviceCollectives, enqueued on `stream`.
  void allreduce(BufferView buffer, ReduceOp op, Nccl& nccl, const CudaStream& stream);
  void reduce(ConstBufferView send, BufferView recv, ReduceOp op, int root, Nccl& nccl, const CudaStream& stream);
  void reduce_scatter(ConstBufferView send, BufferView recv, ReduceOp op, Nccl& nccl, const CudaStream& stream);

 private:
  /// The conversion before a reduction, and the reduction that NCCL makes.
  struct Way {
    enum class Form { kAsTheyAre, kWidened, kKeys } form;
    DType dtype;   ///< dtype of the elements that NCCL reduces
    ReduceOp op;   ///< NCCL's operator
    double scale;  ///< multiplies NCCL's result
    double sign;   ///< multiplies floats before they become keys: -1 turns a minimum into a maximum
  };
  [[nodiscard]] static Way way_for(DType dtype, ReduceOp op, int ranks);
  [[nodiscard]] BufferView converted(ConstBufferView values, const Way& way, const CudaStream& stream);
  /// Converts NCCL's result `from` to the dtype of `to`. Without a conversion both are the same memory.
  static void convert_back(ConstBufferView from, BufferView to, const Way& way, const CudaStream& stream);

  DeviceScratch scratch_;
};

}  // namespace mn

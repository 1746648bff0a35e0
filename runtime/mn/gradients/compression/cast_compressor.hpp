/// Compresses gradients to 16-bit floats, like ChainerMN's allreduce_grad_dtype (Akiba et al. 2017, arXiv:1711.04325).
///
/// Each rank rounds its gradients to float16 or bfloat16. The ranks then sum the gradients in float32, in rank order,
/// and round the mean once.
/// (1) An element beyond the type's range (65,504 for float16; bfloat16 has float32's range) is sent as the largest
///     finite value of the type. The rest of the element stays in the residual, which later steps send. With a
///     GradScaler the element is sent as infinity, so that all ranks leave out the step.
/// (2) An element that is infinite or NaN arrives as infinity or NaN, and leaves no residual.
/// Cost: half as many bytes as float32 gradients. Memory: the 16-bit copy.
#pragma once

#include <mn/gradients/compression/error_feedback.hpp>

namespace mn {

class CastCompressor final : public ErrorFeedback {
 public:
  CastCompressor(const std::vector<at::Tensor>& parameters, at::ScalarType type, std::shared_ptr<Trace> trace);
  void lay_out(std::span<const std::size_t> order, Communicator& comm) override;

 private:
  void reduce(const std::vector<std::size_t>& members, FlatBuffer& gradients, Communicator& comm) override;

  at::ScalarType type_;
  std::optional<FlatBuffer> wire_;  // the 16-bit copy
};

}  // namespace mn

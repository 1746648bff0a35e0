/// Gradients as 16-bit floats.
#pragma once

#include <mn/train/compression/error_feedback.hpp>

namespace mn {

/// Half the bytes: gradients travel as float16 or bfloat16 (ChainerMN's allreduce_grad_dtype; Akiba et al. 2017,
/// arXiv:1711.04325), are summed in float32 in rank order and rounded once. Of an element beyond the type's range
/// (65,504 for float16; bfloat16 has float32's) the largest finite part travels, the rest later; one that is not finite
/// arrives as NaN and leaves nothing behind.
class CastCompressor final : public ErrorFeedback {
 public:
  CastCompressor(const std::vector<at::Tensor>& parameters, at::ScalarType type, std::shared_ptr<Trace> trace);
  void lay_out(std::span<const std::size_t> order, Communicator& comm) override;

 private:
  void reduce(const std::vector<std::size_t>& members, FlatBuffer& gradients, Communicator& comm) override;

  at::ScalarType type_;
  FlatBuffer wire_;
};

}  // namespace mn

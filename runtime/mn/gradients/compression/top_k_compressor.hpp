/// Sends only the largest elements of each gradient (Aji & Heafield 2017, arXiv:1704.05021; Lin et al. 2018, Deep
/// Gradient Compression, arXiv:1712.01887, without momentum correction and warm-up).
///
/// From each gradient each rank chooses the elements with the largest magnitudes. Their number is the fraction
/// `density` of the gradient's elements. The rank sends the indices and values of the chosen elements. Every rank
/// gathers the choices of all ranks and adds them up.
/// (1) Choices are added in rank order; therefore all ranks get the same sum, bit for bit.
/// (2) A rank chooses ceil(density × elements) elements of each gradient. Therefore each rank knows without a message
///     how many elements every other rank sends.
/// (3) A gradient of fewer than kSmallest elements is sent whole. Therefore is a gradient of more than 2³¹ − 1
///     elements, because an index has 32 bits.
/// Cost: 8 bytes sent for each chosen element, in one allgather. The bytes received grow with the number of ranks.
#pragma once

#include <mn/gradients/compression/error_feedback.hpp>

namespace mn {

class TopKCompressor final : public ErrorFeedback {
 public:
  static constexpr std::int64_t kSmallest = 1024;

  TopKCompressor(const std::vector<at::Tensor>& parameters, double density, std::shared_ptr<Trace> trace);

 private:
  void reduce(const std::vector<std::size_t>& members, FlatBuffer& gradients, Communicator& comm) override;
  [[nodiscard]] std::int64_t count_of(std::size_t i) const;
  [[nodiscard]] at::Tensor choose(const std::vector<std::size_t>& members, at::TensorOptions options);
  void add_choices(const at::Tensor& all, const std::vector<std::size_t>& members, FlatBuffer& gradients) const;

  double density_;
};

}  // namespace mn

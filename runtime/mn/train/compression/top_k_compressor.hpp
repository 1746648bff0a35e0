/// Only the largest elements of each gradient.
#pragma once

#include <mn/train/compression/error_feedback.hpp>

namespace mn {

/// Each rank sends the part `density` of each gradient's elements that are largest by magnitude, as index and value (8
/// bytes an element); the rest waits (Aji & Heafield 2017, arXiv:1704.05021; Lin et al. 2018, Deep Gradient
/// Compression, arXiv:1712.01887, without its momentum correction and warm-up). Every rank gathers all choices and adds
/// them in rank order, so the bytes received grow with the number of ranks. Gradients of fewer than kSmallest elements
/// travel whole.
class TopKCompressor final : public ErrorFeedback {
 public:
  static constexpr std::int64_t kSmallest = 1024;

  TopKCompressor(const std::vector<at::Tensor>& parameters, double density, std::shared_ptr<Trace> trace);

 private:
  void reduce(const std::vector<std::size_t>& members, FlatBuffer& gradients, Communicator& comm) override;
  [[nodiscard]] std::int64_t chosen_of(std::size_t i) const;

  double density_;
};

}  // namespace mn

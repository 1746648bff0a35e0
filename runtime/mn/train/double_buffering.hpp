/// Double buffering, ChainerMN's option: the reduction of one step runs while the next computes.
#pragma once

#include <array>
#include <memory>
#include <vector>

#include <mn/comm/communication_thread.hpp>
#include <mn/train/gradient_reduction.hpp>

namespace mn {

/// Step k starts the reduction of its gradients and yields the mean of step k - 1; the first step yields nothing, so an
/// update is one step stale, and the last step's gradients are never applied.
class DoubleBufferedReduction : public GradientReduction {
 public:
  DoubleBufferedReduction(std::vector<at::Tensor> parameters, const Communicator& comm);
  ~DoubleBufferedReduction() override;

  const std::vector<at::Tensor>& parameters() const noexcept override { return gradients_.parameters(); }
  std::size_t bytes() const noexcept override { return gradients_.flat().bytes(); }
  void zero() override { gradients_.zero(); }
  bool reduce(double weight) override;

 private:
  CommunicationThread thread_;
  GradientBuffer gradients_;
  std::array<std::shared_ptr<FlatBuffer>, 2> in_flight_;  // one is being reduced while the update reads the other
  std::size_t next_ = 0;
  bool started_ = false;
};

}  // namespace mn

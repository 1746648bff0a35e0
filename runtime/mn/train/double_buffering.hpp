/// Double buffering, ChainerMN's option: the reduction of one step runs while the next computes.
#pragma once

#include <array>
#include <memory>
#include <vector>

#include <mn/train/background_reducer.hpp>
#include <mn/train/gradient_reduction.hpp>

namespace mn {

/// Step k starts the reduction of its gradients and yields the mean of step k - 1, so an update is one step stale; the
/// first step yields nothing, and flush() the last one's.
class DoubleBufferedReduction : public GradientReduction {
 public:
  DoubleBufferedReduction(std::vector<at::Tensor> parameters, Communicator& comm,
                          std::shared_ptr<GradientCompressor> compressor);
  ~DoubleBufferedReduction() override;

  const std::vector<at::Tensor>& parameters() const noexcept override { return gradients_.parameters(); }
  void clear() override { gradients_.clear(); }
  bool reduce(double weight) override;
  bool flush() override;
  void release() noexcept override { gradients_.release(); }

 private:
  struct Shared {
    FlatBuffer buffer;
    std::shared_ptr<GradientCompressor> compressor;
  };

  BackgroundReducer background_;
  GradientBuffer gradients_;
  std::array<std::shared_ptr<Shared>, 2> in_flight_;  // one is being reduced while the update reads the other
  std::size_t next_ = 0;
  bool started_ = false;  // the other one holds, or will hold, a mean that was not yielded
};

}  // namespace mn

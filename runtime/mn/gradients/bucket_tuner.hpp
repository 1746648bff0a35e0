/// Finds the bucket size with the shortest training step: the first steps try the candidate sizes.
///
/// Each candidate size is used for kSteps steps. The first of these steps is not timed, because it includes the change
/// of the size. When all candidates have been tried, the candidate with the least total time stays.
/// (1) Rank 0's times decide; therefore all ranks choose the same size.
/// (2) Every rank counts every step; therefore all ranks change the size at the same step.
/// (3) If steps run on a GPU, the GPU's work is timed; the host waits for the GPU once, after all candidates.
/// Cost for each candidate: two clock readings or device events. After the last candidate: a broadcast of the times.
#pragma once

#include <cstddef>
#include <optional>
#include <vector>

#include <ATen/core/Tensor.h>

#include <mn/comm/communicator.hpp>
#include <mn/gradients/optimizer_options.hpp>
#include <mn/tensor/device_times.hpp>

namespace mn {

/// Returns the bucket sizes to try, in bytes. By default these are 1, 4, 16, 64 and 256 MiB, as far as they are smaller
/// than all gradients together, and then one size so large that a single bucket holds all gradients. If
/// options.deterministic is set, returns options.bucket_bytes alone.
[[nodiscard]] std::vector<std::size_t> bucket_sizes(const OptimizerOptions& options,
                                                    const std::vector<at::Tensor>& parameters);

class BucketTuner {
 public:
  static constexpr int kSteps = 4;

  /// `candidates` are bucket sizes in bytes. A single candidate is used without trials. Training steps run on `device`.
  explicit BucketTuner(std::vector<std::size_t> candidates, Device device = {});
  [[nodiscard]] std::size_t bucket_bytes() const { return candidates_[current_]; }
  [[nodiscard]] bool is_done() const noexcept { return done_; }
  /// Collective. Call it if something other than the bucket size makes a step take longer. The current size is then
  /// timed again from the beginning.
  void start_over();
  /// Collective; call it at the end of each step. Returns the new bucket size if the size changes now, otherwise
  /// std::nullopt.
  std::optional<std::size_t> step(Communicator& comm);

 private:
  struct Span {
    Moment begin;
    Moment end;
  };
  std::size_t fastest(Communicator& comm) const;

  std::vector<std::size_t> candidates_;
  Device device_;
  std::vector<Span> spans_;  // [candidates] from the end of its first step to the end of its last step
  std::size_t current_ = 0;
  int steps_ = 0;  // steps with the current candidate
  bool done_ = false;
};

}  // namespace mn

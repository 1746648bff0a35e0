/// The GPUs' schedule (mn/comm/nccl/host_pieces.hpp) with times in place of NCCL and of copies. The messages between
/// hosts, and their sums, are real.
///
/// NCCL's reduce_scatter and allgather take what its own model says of a ring with the protocol Simple
/// (src/include/tuning.h of NCCL): 8.4 us, 3.4 us for each further GPU over NVLink or 5.7 us over PCIe, and
/// (g - 1) / g of the bytes at the speed of a link. All GPUs of a node are taken to begin at once.
#pragma once

#include <algorithm>
#include <array>
#include <cstdlib>
#include <utility>
#include <vector>

#include <mpi.h>
#include <smpi/smpi.h>

#include <mn/comm/nccl/host_pieces.hpp>

namespace mn::scaling {

/// A variable that `simulate` has set.
inline double number(const char* name) { return std::atof(std::getenv(name)); }

class GpuPieces final : public HostPieces::Device {
 public:
  using Part = std::pair<float*, std::size_t>;

  /// `data` holds the node's sums already; this GPU's parts of it are summed over nodes and added to `parts`.
  GpuPieces(float* data, std::size_t count, std::size_t rank, std::size_t ranks, std::size_t scale,
            std::vector<Part>& parts)
      : data_(data),
        count_(count),
        rank_(rank),
        ranks_(ranks),
        step_(std::max<std::size_t>(HostPieces::kBytes / sizeof(float) / scale, 1) * ranks),
        parts_(parts) {}

  [[nodiscard]] std::size_t pieces() const { return (count_ + step_ - 1) / step_; }
  [[nodiscard]] std::size_t most_elements() const { return step_ / ranks_ + ranks_; }
  /// Returns when all that was enqueued is done.
  void finish() const { sleep_until(nccl_); }

  void collect(std::size_t k) override {
    nccl_ = std::max(nccl_, MPI_Wtime()) + nccl_seconds(k);
    to_host_ = std::max(to_host_, nccl_) + copy_seconds(k);
    on_host_[k % 2] = to_host_;
  }
  std::size_t part_elements(std::size_t k) override { return own(k).second; }
  std::byte* part(std::size_t k) override {
    sleep_until(on_host_[k % 2]);
    return reinterpret_cast<std::byte*>(own(k).first);
  }
  void spread(std::size_t k) override {
    parts_.push_back(own(k));
    to_device_ = std::max(to_device_, MPI_Wtime()) + copy_seconds(k);
    nccl_ = std::max(nccl_, to_device_) + nccl_seconds(k);
  }

 private:
  [[nodiscard]] std::size_t elements(std::size_t k) const { return std::min(step_, count_ - k * step_); }
  [[nodiscard]] Part own(std::size_t k) const {
    const std::size_t part = elements(k) / ranks_;
    return {data_ + k * step_ + rank_ * part, rank_ + 1 == ranks_ ? elements(k) - rank_ * part : part};
  }
  [[nodiscard]] double copy_seconds(std::size_t k) const {
    return static_cast<double>(own(k).second * sizeof(float)) * number("SIM_SCALE") / number("SIM_COPY_BW");
  }
  [[nodiscard]] double nccl_seconds(std::size_t k) const {
    const auto others = static_cast<double>(ranks_ - 1);
    const double bytes = static_cast<double>(elements(k) * sizeof(float)) * number("SIM_SCALE");
    return 8.4e-6 + others * number("SIM_NCCL_HOP") +
           others / static_cast<double>(ranks_) * bytes / number("SIM_BUS_BW");
  }
  static void sleep_until(double when) {
    if (const double now = MPI_Wtime(); when > now) smpi_execute_benched(when - now);
  }

  float* data_;
  std::size_t count_;
  std::size_t rank_;
  std::size_t ranks_;
  std::size_t step_;  // elements of a piece
  std::vector<Part>& parts_;
  // When what a stream holds is done.
  double nccl_ = 0;
  double to_host_ = 0;
  double to_device_ = 0;
  std::array<double, 2> on_host_{};
};

}  // namespace mn::scaling

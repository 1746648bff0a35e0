// message_bench [BATCHES]: messages between two ranks of this machine: mn::send and mn::recv of host tensors beside
// MPI_Send and MPI_Recv in the same run. Both receive into new memory, as a network's next layer does. A round trip
// with backward also sends the gradients back. `ratio` is MPI's time over ours: above 1, ours is faster.
#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <vector>

#include <mpi.h>
#include <torch/torch.h>

#include <mn/comm/communicator.hpp>
#include <mn/nn/point_to_point.hpp>

#include "tests/bench/seconds_per_call.hpp"

namespace {

using mn::bench::seconds_per_call;

constexpr double kBatchSeconds = 0.05;

/// Each function sends a tensor to the other rank and gets one back.
struct RoundTrips {
  std::shared_ptr<mn::Communicator> comm;
  at::Tensor x;
  int rank = comm->rank(), peer = 1 - comm->rank();

  void by_mn() const {
    const at::NoGradGuard no_grad;
    if (rank == 0) static_cast<void>(mn::send(x, comm, peer));
    const at::Tensor y = mn::recv(comm, peer);
    if (rank == 1) static_cast<void>(mn::send(y, comm, peer));
  }
  void send_by_mpi(const at::Tensor& from) const {
    MPI_Send(from.const_data_ptr<float>(), static_cast<int>(from.numel()), MPI_FLOAT, peer, 0, MPI_COMM_WORLD);
  }
  void by_mpi() const {
    if (rank == 0) send_by_mpi(x);
    const at::Tensor y = torch::empty_like(x);
    MPI_Recv(y.mutable_data_ptr<float>(), static_cast<int>(y.numel()), MPI_FLOAT, peer, 0, MPI_COMM_WORLD,
             MPI_STATUS_IGNORE);
    if (rank == 1) send_by_mpi(y);
  }
  void by_mn_with_backward() const {
    if (rank == 0) {
      const at::Tensor delegate = mn::send(x.detach().requires_grad_(), comm, peer);
      mn::recv(comm, peer, delegate).backward(x);
    } else {
      mn::send(mn::recv(comm, peer), comm, peer).backward();
    }
  }
  void by_mpi_with_backward() const {
    by_mpi();
    by_mpi();
  }
};

template <class Ours, class Mpis>
void compare(const char* what, std::int64_t bytes, int batches, const Ours& ours, const Mpis& mpis) {
  const double once = std::max(seconds_per_call(ours, 3), seconds_per_call(mpis, 3));
  const int repeats = std::clamp(static_cast<int>(kBatchSeconds / once), 1, 10'000);
  std::vector<double> our_s, mpi_s;
  for (int batch = 0; batch < batches; ++batch) {  // in turns: other load on the machine meets both
    mpi_s.push_back(seconds_per_call(mpis, repeats));
    our_s.push_back(seconds_per_call(ours, repeats));
  }
  std::ranges::sort(our_s);
  std::ranges::sort(mpi_s);
  int rank = 0;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  if (rank > 0) return;
  const std::size_t middle = our_s.size() / 2;
  std::printf("%8lld KiB, %-20s mn %10.1f us   MPI %10.1f us   ratio %5.2f   (medians: %5.2f)\n",
              static_cast<long long>(bytes >> 10), what, our_s[0] * 1e6, mpi_s[0] * 1e6, mpi_s[0] / our_s[0],
              mpi_s[middle] / our_s[middle]);
  std::fflush(stdout);
}

}  // namespace

int main(int argc, char** argv) {
  MPI_Init(&argc, &argv);
  {
    const int batches = argc > 1 ? std::max(std::atoi(argv[1]), 1) : 10;
    const auto comm = mn::create_communicator("auto", MPI_COMM_WORLD, {.device = mn::Device{}});
    for (std::int64_t bytes = 4 << 10; comm->size() == 2 && bytes <= 64 << 20; bytes *= 4) {
      const RoundTrips trips{comm, torch::ones({bytes / 4})};
      compare(
          "round trip", bytes, batches, [&] { trips.by_mn(); }, [&] { trips.by_mpi(); });
      compare(
          "and its backward", bytes, batches, [&] { trips.by_mn_with_backward(); },
          [&] { trips.by_mpi_with_backward(); });
    }
    if (comm->size() != 2) std::printf("run it on two ranks\n");
  }
  MPI_Finalize();
}

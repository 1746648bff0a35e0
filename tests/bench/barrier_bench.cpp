// barrier_bench [BATCHES]: the time of a barrier between the ranks of this machine, NodeBarrier's beside MPI_Barrier's
// in the same run. `ratio` is MPI's time over ours: above 1, ours is faster.
#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <vector>

#include <mpi.h>

#include <mn/comm/node/node_barrier.hpp>
#include <mn/comm/node/shared_memory.hpp>

#include "tests/bench/seconds_per_call.hpp"

namespace {

using mn::bench::seconds_per_call;

constexpr double kBatchSeconds = 0.02;

void run(int batches) {
  int rank = 0;
  int ranks = 1;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &ranks);
  const mn::SharedMemory memory(MPI_COMM_WORLD, sizeof(mn::SharedCounter));
  std::vector<mn::SharedCounter*> arrivals;
  for (int r = 0; r < ranks; ++r) arrivals.push_back(reinterpret_cast<mn::SharedCounter*>(memory.segment(r)));
  mn::NodeBarrier barrier(arrivals, rank, mn::has_cpu_for_each_rank(MPI_COMM_WORLD));
  const auto ours = [&] { barrier.arrive_and_wait(); };
  const auto mpis = [] { MPI_Barrier(MPI_COMM_WORLD); };
  const auto repeats_of = [](const auto& call) {
    return std::clamp(static_cast<int>(kBatchSeconds / seconds_per_call(call, 5)), 1, 10'000);
  };
  const int our_repeats = repeats_of(ours);
  const int mpi_repeats = repeats_of(mpis);
  std::vector<double> our_s;
  std::vector<double> mpi_s;
  for (int batch = 0; batch < batches; ++batch) {  // in turns: other load on the machine meets both
    mpi_s.push_back(seconds_per_call(mpis, mpi_repeats));
    our_s.push_back(seconds_per_call(ours, our_repeats));
  }
  std::ranges::sort(our_s);
  std::ranges::sort(mpi_s);
  const auto print = [&](const char* what, std::size_t at) {
    std::printf("%3d ranks, %-7s NodeBarrier %10.1f us   MPI_Barrier %10.1f us   ratio %6.2f\n", ranks, what,
                our_s[at] * 1e6, mpi_s[at] * 1e6, mpi_s[at] / our_s[at]);
  };
  if (rank > 0) return;
  print("best", 0);
  print("median", our_s.size() / 2);
}

}  // namespace

int main(int argc, char** argv) {
  MPI_Init(&argc, &argv);
  run(argc > 1 ? std::max(std::atoi(argv[1]), 1) : 20);
  MPI_Finalize();
}

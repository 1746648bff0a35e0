// allreduce_bench [BACKEND …]: the time of an allreduce of float32 on the CPU, per backend and size, beside
// MPI_Allreduce in the same run. `ratio` is MPI's time over the backend's: above 1, the backend is faster. algbw =
// bytes / time; busbw = algbw × 2 (n − 1) / n, which an ideal network of that speed would need (nccl-tests,
// doc/PERFORMANCE.md).
#include <algorithm>
#include <cstdio>
#include <functional>
#include <string>
#include <vector>

#include <mpi.h>

#include <mn/comm/communicator.hpp>
#include <mn/comm/job.hpp>

namespace {

constexpr std::size_t kLeastBytes = 1024;
constexpr std::size_t kMostBytes = 64 << 20;
constexpr int kBatches = 60;
constexpr double kBatchSeconds = 0.001;

/// The slowest rank's time of `repeats` calls, per call.
double seconds_per_call(const std::function<void()>& call, int repeats) {
  MPI_Barrier(MPI_COMM_WORLD);
  const double start = MPI_Wtime();
  for (int i = 0; i < repeats; ++i) call();
  double seconds = (MPI_Wtime() - start) / repeats;
  MPI_Allreduce(MPI_IN_PLACE, &seconds, 1, MPI_DOUBLE, MPI_MAX, MPI_COMM_WORLD);
  return seconds;
}

struct Times {
  double mpi;
  double ours;
};

/// The best of batches that take turns: what else the machine does only adds, and meets both.
Times compare(const std::function<void()>& mpi, const std::function<void()>& ours) {
  const auto repeats_of = [](const std::function<void()>& call) {
    seconds_per_call(call, 2);
    return std::clamp(static_cast<int>(kBatchSeconds / seconds_per_call(call, 3)), 1, 10'000);
  };
  const int mpi_repeats = repeats_of(mpi);
  const int our_repeats = repeats_of(ours);
  Times best{1e9, 1e9};
  for (int batch = 0; batch < kBatches; ++batch) {
    best.mpi = std::min(best.mpi, seconds_per_call(mpi, mpi_repeats));
    best.ours = std::min(best.ours, seconds_per_call(ours, our_repeats));
  }
  return best;
}

void measure(const std::string& label, mn::Communicator& comm, std::byte* memory) {
  std::vector<float> private_memory(kMostBytes / sizeof(float), 0.0F);
  for (std::size_t bytes = kLeastBytes; bytes <= kMostBytes; bytes *= 4) {
    const std::size_t count = bytes / sizeof(float);
    void* ours = memory != nullptr ? memory : static_cast<void*>(private_memory.data());
    const Times times = compare(
        [&] {
          MPI_Allreduce(MPI_IN_PLACE, private_memory.data(), static_cast<int>(count), MPI_FLOAT, MPI_SUM,
                        MPI_COMM_WORLD);
        },
        [&] { comm.allreduce(mn::BufferView(ours, count, mn::DType::kFloat32)); });
    if (comm.rank() != 0) continue;
    const double algbw = static_cast<double>(bytes) / times.ours / 1e9;
    std::printf("%-24s %8zu KiB %12.1f us %12.1f us %7.2f %8.2f GB/s %8.2f GB/s\n", label.c_str(), bytes / 1024,
                times.mpi * 1e6, times.ours * 1e6, times.mpi / times.ours, algbw,
                algbw * 2 * (comm.size() - 1) / comm.size());
    std::fflush(stdout);
  }
}

int run(const mn::Job& job, std::vector<std::string> backends) {
  if (backends.empty()) backends = {"naive", "flat", "hierarchical"};
  if (job.rank() == 0) {
    std::printf("%d ranks\n%-24s %12s %15s %15s %7s %13s %13s\n", job.size(), "backend", "size", "MPI_Allreduce",
                "backend", "ratio", "algbw", "busbw");
  }
  for (const std::string& name : backends) {
    mn::CommunicatorOptions options;
    options.device = mn::Device();
    const auto comm = mn::create_communicator(name, MPI_COMM_WORLD, options);
    measure(name, *comm, nullptr);
    if (name != "hierarchical") continue;
    const auto memory = comm->allocate(kMostBytes);
    measure(name + ", allocate()", *comm, memory.get());
  }
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  return mn::run_job(argc, argv, [&](mn::Job& job) { return run(job, {argv + 1, argv + argc}); });
}

// nccl_bench: on GPUs, the time of an allreduce of float32 through NCCL per size, with nccl-tests' figures: algbw =
// bytes / time; busbw = algbw × 2 (n − 1) / n (nccl-tests, doc/PERFORMANCE.md); the smallest sizes show the latency.
// `flat` is the same through host memory and MPI. Then the time of the mean of gradients, and the bandwidth of the
// kernel that packs gradients, reads and writes together, beside that of a copy within the device. Run it as mpiexec -n
// GPUS tests/nccl_bench.
#include <algorithm>
#include <cstdio>
#include <functional>

#include <cuda_runtime_api.h>
#include <mpi.h>

#include <mn/comm/communicator.hpp>
#include <mn/comm/device/cuda.hpp>
#include <mn/comm/device/device_collectives.hpp>
#include <mn/comm/device/pack.hpp>
#include <mn/job/job.hpp>

namespace {

constexpr std::size_t kLeastBytes = 8;
constexpr std::size_t kMaxBytes = std::size_t{256} << 20;
constexpr double kBatchSeconds = 0.02;
constexpr int kBatches = 5;

/// The slowest rank's time per call; `finish` waits for what `call` enqueued.
double seconds_per_call(const std::function<void()>& call, const std::function<void()>& finish, int repeats) {
  MPI_Barrier(MPI_COMM_WORLD);
  const double start = MPI_Wtime();
  for (int i = 0; i < repeats; ++i) call();
  finish();
  double seconds = (MPI_Wtime() - start) / repeats;
  MPI_Allreduce(MPI_IN_PLACE, &seconds, 1, MPI_DOUBLE, MPI_MAX, MPI_COMM_WORLD);
  return seconds;
}

/// The best of a few batches.
double best_seconds(const std::function<void()>& call, const std::function<void()>& finish) {
  seconds_per_call(call, finish, 2);
  const int repeats = std::clamp(static_cast<int>(kBatchSeconds / seconds_per_call(call, finish, 3)), 1, 1000);
  double best = 1e9;
  for (int batch = 0; batch < kBatches; ++batch) best = std::min(best, seconds_per_call(call, finish, repeats));
  return best;
}

void measure_allreduce(mn::Communicator& nccl, mn::Communicator& flat, std::byte* memory) {
  if (nccl.rank() == 0) {
    std::printf("%d ranks\n%14s %12s %14s %14s %12s\n", nccl.size(), "bytes", "NCCL", "algbw", "busbw", "flat");
  }
  mn::DeviceCollectives& collectives = *nccl.device_collectives();
  for (std::size_t bytes = kLeastBytes; bytes <= kMaxBytes; bytes *= 4) {
    const mn::BufferView buffer(memory, bytes / sizeof(float), mn::DType::kFloat32, nccl.device());
    const double seconds =
        best_seconds([&] { collectives.allreduce(buffer, mn::ReduceOp::kSum); }, [&] { collectives.wait(); });
    const double staged = best_seconds([&] { flat.allreduce(buffer, mn::ReduceOp::kSum); }, [] {});
    if (nccl.rank() != 0) continue;
    const double algbw = static_cast<double>(bytes) / seconds / 1e9;
    std::printf("%14zu %9.1f us %9.2f GB/s %9.2f GB/s %9.1f us\n", bytes, seconds * 1e6, algbw,
                algbw * 2 * (nccl.size() - 1) / nccl.size(), staged * 1e6);
    std::fflush(stdout);
  }
}

/// The mean of gradients that lie one behind another: NCCL's plain sum, and a kernel that multiplies by 1 / ranks.
void measure_mean(mn::Communicator& nccl, std::byte* memory) {
  const mn::BufferView buffer(memory, kMaxBytes / sizeof(float), mn::DType::kFloat32, nccl.device());
  mn::DeviceCollectives& collectives = *nccl.device_collectives();
  const auto finish = [&] { collectives.wait(); };
  const double sum = best_seconds([&] { collectives.allreduce(buffer, mn::ReduceOp::kSum); }, finish);
  const double mean = best_seconds([&] { collectives.sum_gradients({&buffer, 1}, 1.0 / nccl.size()); }, finish);
  if (nccl.rank() == 0) std::printf("mean of gradients %9.1f us, %.2f of the sum's time\n", mean * 1e6, mean / sum);
}

/// 161 tensors, as ResNet-50 has gradients.
void measure_pack(const mn::Communicator& comm, std::byte* from, std::byte* to) {
  constexpr std::size_t kTensors = 161;
  constexpr std::size_t kCount = std::size_t{25'500'000} / kTensors / 64 * 64;
  constexpr std::size_t kBytes = kTensors * kCount * sizeof(float);
  mn::CudaStream stream(comm.device().index);
  const auto finish = [&] { stream.synchronize(); };
  const double copy = best_seconds(
      [&] { cudaMemcpyAsync(to, from, kBytes, cudaMemcpyDeviceToDevice, static_cast<cudaStream_t>(stream.handle())); },
      finish);
  const double copy_rate = 2.0 * kBytes / copy / 1e9;
  if (comm.rank() == 0) std::printf("%-24s %9.1f us %9.1f GB/s\n", "copy", copy * 1e6, copy_rate);
  for (const mn::DType wire : {mn::DType::kFloat32, mn::DType::kBFloat16, mn::DType::kFloat16}) {
    std::vector<mn::PackPiece> pieces;
    for (std::size_t i = 0; i < kTensors; ++i) {
      pieces.push_back({from + i * kCount * sizeof(float), to + i * kCount * size_of(wire), kCount});
    }
    const double seconds =
        best_seconds([&] { mn::pack_on_device(pieces, mn::DType::kFloat32, wire, 0.5, stream.handle()); }, finish);
    const double moved = static_cast<double>(kTensors * kCount * (sizeof(float) + size_of(wire)));
    if (comm.rank() != 0) continue;
    std::printf("pack float32 as %-8s %9.1f us %9.1f GB/s, %.2f of the copy's\n", std::string(name_of(wire)).c_str(),
                seconds * 1e6, moved / seconds / 1e9, moved / seconds / 1e9 / copy_rate);
  }
}

int run() {
  const auto nccl = mn::create_communicator("pure_nccl");
  const auto flat = mn::create_communicator("flat", MPI_COMM_WORLD, {.device = nccl->device()});
  const auto from = mn::cuda_allocate(kMaxBytes);
  const auto to = mn::cuda_allocate(kMaxBytes);
  cudaMemset(from.get(), 0, kMaxBytes);
  measure_allreduce(*nccl, *flat, from.get());
  measure_mean(*nccl, from.get());
  measure_pack(*nccl, from.get(), to.get());
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  return mn::run_job(argc, argv, [](mn::Job&) { return run(); });
}

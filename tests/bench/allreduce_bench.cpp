// allreduce_bench [--dtype NAME]… [--most KIB] [--batches N] [BACKEND …]: the time of an allreduce on the CPU, per
// backend, type and size, beside MPI_Allreduce in the same run. `ratio` is MPI's time over the backend's: above 1, the
// backend is faster. algbw = bytes / time; busbw = algbw × 2 (n − 1) / n, which an ideal network of that speed would
// need (nccl-tests, doc/PERFORMANCE.md). MPI has no 16-bit floats.
#include <algorithm>
#include <cstdio>
#include <functional>
#include <stdexcept>
#include <string>
#include <vector>

#include <mpi.h>

#include <mn/comm/communicator.hpp>
#include <mn/core/error.hpp>
#include <mn/job/job.hpp>

#include "tests/bench/seconds_per_call.hpp"

namespace {

using mn::bench::seconds_per_call;

constexpr std::size_t kLeastBytes = 1024;
constexpr double kBatchSeconds = 0.001;

struct Options {
  std::vector<std::string> backends;
  std::vector<mn::DType> dtypes;
  std::size_t most_bytes = 64 << 20;
  int batches = 60;
};

mn::DType dtype_named(const std::string& name) {
  for (int i = 1; i <= static_cast<int>(mn::DType::kFloat64); ++i) {
    if (name_of(static_cast<mn::DType>(i)) == name) return static_cast<mn::DType>(i);
  }
  throw mn::UsageError("unknown dtype " + name +
                       "; known: uint8, int8, int32, int64, uint64, float16, bfloat16, float32, float64");
}

Options parse(const std::vector<std::string>& args) {
  Options options;
  for (auto arg = args.begin(); arg != args.end(); ++arg) {
    if (!arg->starts_with("--")) {
      options.backends.push_back(*arg);
      continue;
    }
    const std::string name = *arg;
    if (name != "--dtype" && name != "--most" && name != "--batches") throw mn::UsageError("unknown option " + name);
    if (++arg == args.end()) throw mn::UsageError(name + " needs a value");
    if (name == "--dtype") {
      options.dtypes.push_back(dtype_named(*arg));
      continue;
    }
    const int number = std::atoi(arg->c_str());
    if (number < 1) throw mn::UsageError(name + " is a number above 0, not " + *arg);
    if (name == "--most") options.most_bytes = static_cast<std::size_t>(number) * 1024;
    if (name == "--batches") options.batches = number;
  }
  if (options.backends.empty()) options.backends = {"naive", "flat", "hierarchical", "two_dimensional"};
  if (options.dtypes.empty()) options.dtypes = {mn::DType::kFloat32};
  return options;
}

struct Times {
  double mpi;
  double ours;
};

/// The best of batches that take turns: other load on the machine only adds time, and to both.
Times compare(const std::function<void()>& mpi, const std::function<void()>& ours, int batches) {
  const auto repeats_of = [](const std::function<void()>& call) {
    seconds_per_call(call, 2);
    return std::clamp(static_cast<int>(kBatchSeconds / seconds_per_call(call, 3)), 1, 10'000);
  };
  const int mpi_repeats = repeats_of(mpi);
  const int our_repeats = repeats_of(ours);
  Times best{1e9, 1e9};
  for (int batch = 0; batch < batches; ++batch) {
    best.mpi = std::min(best.mpi, seconds_per_call(mpi, mpi_repeats));
    best.ours = std::min(best.ours, seconds_per_call(ours, our_repeats));
  }
  return best;
}

void print(const std::string& label, std::size_t bytes, const Times& times, bool mpi_can, int ranks) {
  const double algbw = static_cast<double>(bytes) / times.ours / 1e9;
  char mpi[64] = "              -       -";
  if (mpi_can) std::snprintf(mpi, sizeof(mpi), "%12.1f us %7.2f", times.mpi * 1e6, times.mpi / times.ours);
  std::printf("%-36s %8zu KiB %12.1f us %s %8.2f GB/s %8.2f GB/s\n", label.c_str(), bytes / 1024, times.ours * 1e6, mpi,
              algbw, algbw * 2 * (ranks - 1) / ranks);
  std::fflush(stdout);
}

/// Memory of the communicator's, or, where it is null, ordinary memory.
void measure(const std::string& label, mn::Communicator& comm, std::byte* memory, mn::DType dtype,
             const Options& options) {
  std::vector<double> ordinary(options.most_bytes / sizeof(double), 0.0);
  void* ours = memory != nullptr ? memory : static_cast<void*>(ordinary.data());
  const bool mpi_can = dtype != mn::DType::kFloat16 && dtype != mn::DType::kBFloat16;
  for (std::size_t bytes = kLeastBytes; bytes <= options.most_bytes; bytes *= 4) {
    const std::size_t count = bytes / mn::size_of(dtype);
    const auto mpi = [&] {
      if (!mpi_can) return;
      MPI_Allreduce(MPI_IN_PLACE, ordinary.data(), static_cast<int>(count), mn::mpi_type(dtype), MPI_SUM,
                    MPI_COMM_WORLD);
    };
    const auto backend = [&] { comm.allreduce(mn::BufferView(ours, count, dtype)); };
    const Times times = compare(mpi, backend, options.batches);
    if (comm.rank() == 0) print(label, bytes, times, mpi_can, comm.size());
  }
}

int run(const mn::Job& job, const Options& options) {
  if (job.rank() == 0) {
    std::printf("%d ranks\n%-36s %12s %15s %15s %7s %13s %13s\n", job.size(), "backend", "size", "backend",
                "MPI_Allreduce", "ratio", "algbw", "busbw");
  }
  for (const std::string& name : options.backends) {
    mn::CommunicatorOptions on_cpu;
    on_cpu.device = mn::Device();
    const auto comm = mn::create_communicator(name, MPI_COMM_WORLD, on_cpu);
    for (const mn::DType dtype : options.dtypes) {
      const std::string label = name + " " + std::string(name_of(dtype));
      measure(label, *comm, nullptr, dtype, options);
      if (name == "naive" || name == "flat") continue;  // ordinary memory is all they have
      const auto memory = comm->allocate(options.most_bytes);
      measure(label + ", allocate()", *comm, memory.get(), dtype, options);
    }
  }
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  return mn::run_job(argc, argv, [&](mn::Job& job) { return run(job, parse({argv + 1, argv + argc})); });
}

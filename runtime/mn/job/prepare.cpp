#include <cstdint>
#include <string>
#include <string_view>

#include <malloc.h>
#include <mpi.h>

#include <mn/comm/mpi.hpp>
#include <mn/core/environment.hpp>
#include <mn/core/error.hpp>
#include <mn/core/ranks.hpp>
#include <mn/job/prepare.hpp>

namespace mn {
namespace {

// Management networks stall for seconds; a process that ends is seen at once.
constexpr std::int64_t kPeerTimeout_s = 60;

}  // namespace

/// glibc would give the memory of each large tensor back to the system, and have it zeroed page by page at the next
/// step. Whoever sets malloc's variables knows better.
void keep_freed_memory() {
  constexpr int kMmapThreshold = 32 << 20;  // the most that glibc takes
  constexpr int kTrimThreshold = 512 << 20;
  for (const char* name : {"MALLOC_MMAP_THRESHOLD_", "MALLOC_TRIM_THRESHOLD_", "MALLOC_TOP_PAD_", "MALLOC_MMAP_MAX_"}) {
    if (environment(name)) return;
  }
  if (environment("GLIBC_TUNABLES").value_or("").find("glibc.malloc.") != std::string::npos) return;
  mallopt(M_MMAP_THRESHOLD, kMmapThreshold);
  mallopt(M_TRIM_THRESHOLD, kTrimThreshold);
}

/// Under srun without PMIx, Open MPI ends the process with a page of text, or comes up as many jobs of one rank.
void check_launcher() {
  if (!in_slurm_step(environment)) return;
  for (const char* server : {"PMIX_NAMESPACE", "PMIX_RANK", "OMPI_COMM_WORLD_SIZE"}) {
    if (environment(server)) return;
  }
  char version[MPI_MAX_LIBRARY_VERSION_STRING] = {};
  int length = 0;
  MPI_Get_library_version(version, &length);
  const bool open_mpi = std::string_view(version).starts_with("Open MPI");
  if (!open_mpi && (environment("PMI_FD") || environment("PMI_RANK") || environment("PMI_SIZE"))) return;
  throw UsageError(
      "this Slurm step gives MPI no PMIx server: start it with `srun --mpi=pmix` (`srun --mpi=list` shows what there "
      "is)");
}

bool has_started_mpi() {
  int started = 0;
  MPI_Initialized(&started);
  return started != 0;
}

void start_mpi(int& argc, char**& argv) {
  int provided = 0;
  mpi_check(MPI_Init_thread(&argc, &argv, MPI_THREAD_MULTIPLE, &provided), "MPI_Init_thread");
}

std::chrono::seconds peer_timeout() {
  const std::int64_t seconds = environment_int("MN_PEER_TIMEOUT").value_or(kPeerTimeout_s);
  if (seconds < 0 || seconds > 86400) {
    throw UsageError("MN_PEER_TIMEOUT is " + std::to_string(seconds) + ": use 1 to 86400 seconds, or 0 for no monitor");
  }
  return std::chrono::seconds(seconds);
}

}  // namespace mn

#include <mn/job/prepare.hpp>

#include <algorithm>
#include <array>
#include <cstdint>
#include <string>

#include <malloc.h>
#include <mpi.h>

#include <mn/comm/mpi/mpi.hpp>
#include <mn/core/environment.hpp>
#include <mn/core/error.hpp>
#include <mn/core/launcher_variables.hpp>

namespace mn {
namespace {

// Management networks may stall for many seconds. Ended processes are noticed at once all the same.
constexpr std::int64_t kPeerTimeout_s = 60;

std::string mpi_version() {
  char version[MPI_MAX_LIBRARY_VERSION_STRING] = {};
  int length = 0;
  MPI_Get_library_version(version, &length);
  return version;
}

/// The error of a process that MPI started alone, although variables promise several ranks. The first process of each
/// node reports the error, because there may be no rank 0.
class LoneRankError : public UsageError {
 public:
  using UsageError::UsageError;
  [[nodiscard]] bool on_all_ranks() const noexcept override { return !is_first_of_node_; }

 private:
  static bool is_first_of_node() {
    const auto is_later = [](const char* name) { return parse_rank(environment(name).value_or("")).value_or(0) > 0; };
    return std::ranges::none_of(std::array{"LOCAL_RANK", "SLURM_LOCALID", "PMI_LOCAL_RANK", "MPI_LOCALRANKID"},
                                is_later);
  }
  bool is_first_of_node_ = is_first_of_node();
};

[[noreturn]] void reject_lone_rank(const JobRank& told, const std::string& why) {
  const LoneRankError error("its variables say rank " + std::to_string(told.rank) + " of " + std::to_string(told.size) +
                            ", but " + why +
                            ", so that each rank would train alone: start all ranks with one `srun --mpi=pmix` or one "
                            "mpiexec, or unset RANK and WORLD_SIZE to train on one rank");
  if (error.on_all_ranks()) let_rank_zero_speak();
  throw error;
}

/// Throws UsageError under torchrun with several workers, which would all be the same rank of MPI.
void reject_torchrun() {
  if (!environment("TORCHELASTIC_RUN_ID")) return;
  const JobRank told{.rank = static_cast<int>(environment_int("RANK").value_or(0)),
                     .size = static_cast<int>(environment_int("WORLD_SIZE").value_or(1))};
  const auto launcher = job_rank_of_launcher(environment);
  if (told.size == (launcher ? launcher->size : 1)) return;
  reject_lone_rank(told, "torchrun started it, whose workers MPI does not know (TORCHELASTIC_RUN_ID is set)");
}

}  // namespace

/// By default glibc returns each large tensor's memory to the system, and each training step gets new, zeroed pages.
void keep_freed_memory() {
  constexpr int kMmapThreshold = 32 << 20;  // glibc's maximum for this option
  constexpr int kTrimThreshold = 512 << 20;
  for (const char* name : {"MALLOC_MMAP_THRESHOLD_", "MALLOC_TRIM_THRESHOLD_", "MALLOC_TOP_PAD_", "MALLOC_MMAP_MAX_"}) {
    if (environment(name)) return;
  }
  if (environment("GLIBC_TUNABLES").value_or("").find("glibc.malloc.") != std::string::npos) return;
  mallopt(M_MMAP_THRESHOLD, kMmapThreshold);
  mallopt(M_TRIM_THRESHOLD, kTrimThreshold);
}

/// Without PMIx, Open MPI would end the process with a page of text, or start many jobs of one rank each.
void check_launcher() {
  reject_torchrun();
  if (!in_slurm_step(environment)) return;
  for (const char* server : {"PMIX_NAMESPACE", "PMIX_RANK", "OMPI_COMM_WORLD_SIZE"}) {
    if (environment(server)) return;
  }
  const bool open_mpi = mpi_version().starts_with("Open MPI");
  if (!open_mpi && (environment("PMI_FD") || environment("PMI_RANK") || environment("PMI_SIZE"))) return;
  throw UsageError(
      "this Slurm step gives MPI no PMIx server: start it with `srun --mpi=pmix` (`srun --mpi=list` shows what there "
      "is)");
}

void check_size(int size) {
  if (size > 1) return;
  const JobRank told = job_rank_of_launcher(environment).value_or(job_rank_of_environment(environment));
  if (told.size == 1) return;
  const std::string version = mpi_version();
  reject_lone_rank(told, "MPI (" + version.substr(0, version.find_first_of(",\n")) + ") started this process alone");
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
  return environment_seconds("MN_PEER_TIMEOUT", kPeerTimeout_s, 86400, "no monitor");
}

}  // namespace mn

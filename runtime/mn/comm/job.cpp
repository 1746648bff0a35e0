#include <charconv>
#include <chrono>
#include <string>
#include <thread>

#include <mpi.h>

#include <mn/comm/failure.hpp>
#include <mn/comm/job.hpp>
#include <mn/comm/mpi.hpp>
#include <mn/core/environment.hpp>
#include <mn/core/error.hpp>
#include <mn/core/log.hpp>

namespace mn {
namespace {

constexpr auto kAgreementTime = std::chrono::seconds(2);

/// Under srun without PMIx, Open MPI ends the process with a page of text, or comes up as many jobs of one rank.
void check_launcher() {
  const auto step = environment("SLURM_STEP_ID");
  if (!step || step->starts_with('-')) return;  // a batch script's own shell is no step
  for (const char* server : {"PMIX_NAMESPACE", "PMIX_RANK", "OMPI_COMM_WORLD_SIZE"}) {
    if (environment(server)) return;
  }
  char version[MPI_MAX_LIBRARY_VERSION_STRING] = {};
  int length = 0;
  MPI_Get_library_version(version, &length);
  const bool open_mpi = std::string_view(version).starts_with("Open MPI");
  if (!open_mpi && (environment("PMI_FD") || environment("PMI_RANK") || environment("PMI_SIZE"))) return;
  throw UsageError(
      "this step of Slurm gives MPI no PMIx server: start it with `srun --mpi=pmix` (`srun --mpi=list` shows what "
      "there "
      "is)");
}

void start_log(const Speaker& speaker) {
  LogOptions options;
  options.rank = speaker.rank;
  options.host = speaker.host;
  init_log(options);
}

/// Initialises MPI unless the program has; true if it did.
bool start_mpi(int& argc, char**& argv) {
  int up = 0;
  MPI_Initialized(&up);
  if (up != 0) return false;
  check_launcher();
  int provided = 0;
  mpi_check(MPI_Init_thread(&argc, &argv, MPI_THREAD_MULTIPLE, &provided), "MPI_Init_thread");
  return true;
}

}  // namespace

int rank_from_environment() noexcept {
  for (const char* name : {"MN_RANK", "RANK", "PMIX_RANK", "OMPI_COMM_WORLD_RANK", "PMI_RANK", "SLURM_PROCID"}) {
    const char* text = std::getenv(name);
    if (text == nullptr || *text == '\0') continue;
    int rank = 0;
    const char* last = text + std::char_traits<char>::length(text);
    const auto [end, error] = std::from_chars(text, last, rank);
    if (error == std::errc() && end == last && rank >= 0) return rank;
  }
  return 0;
}

class Job::Impl {
 public:
  Impl(int& argc, char**& argv) {
    speaker_ = {rank_from_environment(), host_name()};
    install_terminate_handler(speaker_, {});
    start_log(speaker_);
    owns_mpi_ = start_mpi(argc, argv);
    comm_ = Mpi::duplicate(MPI_COMM_WORLD);
    speaker_.rank = comm_.rank();
    size_ = comm_.size();
    start_log(speaker_);
    install_terminate_handler(
        speaker_,
        {.all_ranks_agree = [this] { return all_ranks_agree(); }, .finish = [this] { finish(); }, .tell_peers = [] {}});
    install_signal_handlers(speaker_);
  }

  ~Impl() {
    if (std::uncaught_exceptions() > 0) {
      report(speaker_, "an exception left the scope of mn::Job; all ranks end");
      end_all_ranks(1);
    }
    finish();
    remove_failure_handlers();
  }

  [[nodiscard]] int rank() const noexcept { return speaker_.rank; }
  [[nodiscard]] int size() const noexcept { return size_; }

 private:
  bool all_ranks_agree() {
    MPI_Request request = MPI_REQUEST_NULL;
    if (MPI_Ibarrier(comm_.get(), &request) != MPI_SUCCESS) return false;
    const auto deadline = std::chrono::steady_clock::now() + kAgreementTime;
    int done = 0;
    while (done == 0 && std::chrono::steady_clock::now() < deadline) {
      if (MPI_Test(&request, &done, MPI_STATUS_IGNORE) != MPI_SUCCESS) return false;
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
    return done != 0;
  }

  void finish() {
    comm_.reset();
    if (owns_mpi_ && mpi_is_up()) MPI_Finalize();
  }

  Speaker speaker_;
  int size_ = 1;
  bool owns_mpi_ = false;
  Mpi comm_;
};

Job::Job(int& argc, char**& argv) : impl_(std::make_unique<Impl>(argc, argv)) {}
Job::~Job() = default;
int Job::rank() const noexcept { return impl_->rank(); }
int Job::size() const noexcept { return impl_->size(); }

int run_job(int argc, char** argv, const std::function<int(Job&)>& body) {
  try {
    Job job(argc, argv);
    try {
      return body(job);
    } catch (...) {
      fail_job(std::current_exception());
    }
  } catch (...) {
    fail_job(std::current_exception());
  }
}

}  // namespace mn

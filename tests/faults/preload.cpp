// Preloaded into the ranks of a job: one call of one rank, on the files of its output folder, has a fault
// (failing_calls.hpp).
//   MN_FAULT_FOLDER   the folder; without it nothing happens
//   MN_FAULT_RANK     the rank; without it all
//   MN_FAULT_AT       the number of the call; MN_FAULT_FROM_THEN_ON: and of all later ones
//   MN_FAULT_KIND     kill, short, or the number of an errno; without it calls are counted
//   MN_FAULT_NO_EXCHANGE  names cannot be exchanged, as on NFS
//   MN_FAULT_COUNT    a file that gets ".RANK" and says how many calls there were
//   MN_FAULT_RECORD   a file that gets ".RANK" and takes the record of calls
//   MN_FAULT_CLOCK_JUMP   seconds by which the clock is wrong from MN_FAULT_CLOCK_AFTER seconds after its first use on
#include <cstdint>
#include <cstdlib>
#include <fstream>
#include <string>

#include <fcntl.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

#include "tests/support/failing_calls.hpp"

namespace {

using mn::test::CallFault;

std::string variable(const char* name) {
  const char* value = std::getenv(name);
  return value == nullptr ? "" : value;
}

std::string own_rank() {
  for (const char* name : {"OMPI_COMM_WORLD_RANK", "PMIX_RANK", "SLURM_PROCID"}) {
    if (const std::string rank = variable(name); !rank.empty()) return rank;
  }
  return "";  // a launcher's process
}

/// Whether this process is one of those that have the fault.
bool is_meant() {
  const std::string rank = variable("MN_FAULT_RANK"), own = own_rank();
  return !own.empty() && (rank.empty() || rank == own);
}

timespec kernel_time(clockid_t clock) {
  timespec now{};
  syscall(SYS_clock_gettime, clock, &now);
  return now;
}

/// Seconds by which the clock is wrong now.
time_t clock_error() {
  static const time_t jump = is_meant() ? std::atoll(variable("MN_FAULT_CLOCK_JUMP").c_str()) : 0;
  static const double from =
      static_cast<double>(kernel_time(CLOCK_MONOTONIC).tv_sec) + std::atof(variable("MN_FAULT_CLOCK_AFTER").c_str());
  return jump != 0 && static_cast<double>(kernel_time(CLOCK_MONOTONIC).tv_sec) >= from ? jump : 0;
}

/// The folder's faults, while this object lives: as long as the process.
class Faults {
 public:
  Faults() {
    const std::string folder = variable("MN_FAULT_FOLDER"), own = own_rank();
    if (folder.empty() || !is_meant()) return;
    if (const std::string path = variable("MN_FAULT_COUNT"); !path.empty()) count_ = path + "." + own;
    const std::string kind = variable("MN_FAULT_KIND");
    const CallFault fault = kind.empty()      ? CallFault::kNone
                            : kind == "kill"  ? CallFault::kKill
                            : kind == "short" ? CallFault::kShort
                                              : CallFault::kError;
    const std::string path = variable("MN_FAULT_RECORD");
    const int record =
        path.empty() ? -1 : ::open((path + "." + own).c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0644);
    mn::test::fail_call(folder, std::atoll(variable("MN_FAULT_AT").c_str()), fault, std::atoi(kind.c_str()),
                        !variable("MN_FAULT_FROM_THEN_ON").empty());
    mn::test::record_calls(record);
    mn::test::refuse_exchanges(!variable("MN_FAULT_NO_EXCHANGE").empty());
  }
  ~Faults() {
    const std::int64_t calls = mn::test::stop_failing();
    if (!count_.empty()) std::ofstream(count_) << calls << '\n';
  }
  Faults(const Faults&) = delete;
  Faults& operator=(const Faults&) = delete;

 private:
  std::string count_;
};

const Faults faults;  // NOLINT

}  // namespace

extern "C" {

int clock_gettime(clockid_t clock, timespec* now) noexcept {
  *now = kernel_time(clock);
  if (clock == CLOCK_REALTIME) now->tv_sec += clock_error();
  return 0;
}

int gettimeofday(timeval* now, void* /*zone*/) noexcept {
  const timespec time = kernel_time(CLOCK_REALTIME);
  *now = {time.tv_sec + clock_error(), time.tv_nsec / 1000};
  return 0;
}

time_t time(time_t* now) noexcept {
  const time_t seconds = kernel_time(CLOCK_REALTIME).tv_sec + clock_error();
  if (now != nullptr) *now = seconds;
  return seconds;
}

}  // extern "C"

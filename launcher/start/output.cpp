#include "start/output.hpp"

#include <cerrno>
#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <iostream>
#include <optional>
#include <utility>

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <mn/core/environment.hpp>
#include <mn/core/error.hpp>

#include "cli/output_pattern.hpp"
#include "place/processes.hpp"

namespace mn::launcher {
namespace {

namespace fs = std::filesystem;

using TimePoint = std::chrono::system_clock::time_point;

constexpr const char* kOtherFolder = "; name a folder that this node can write";

Fd open_to_append(const fs::path& path) {
  std::error_code error;
  if (path.has_parent_path()) fs::create_directories(path.parent_path(), error);
  if (error) {
    throw UsageError("--output: cannot make " + path.parent_path().string() + ": " + error.message() + kOtherFolder);
  }
  Fd file(open(path.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, mode_t{0666}));
  if (!file) throw UsageError(with_errno("--output: cannot write " + path.string(), errno) + kOtherFolder);
  return file;
}

/// Locks the file for the program, which inherits the lock. Returns true if the file may be emptied: no other process
/// holds a lock, or the file system has no locks.
bool is_only_writer(const Fd& file) {
  const bool is_only = flock(file.get(), LOCK_EX | LOCK_NB) == 0 || errno != EWOULDBLOCK;
  flock(file.get(), LOCK_SH | LOCK_NB);
  return is_only;
}

/// Whether the file was written since the step began (`begin`), for example by a concurrent step. 2 s earlier count,
/// too: ranks start at different times, and only whole seconds are compared.
bool has_changed_since(const Fd& file, TimePoint begin) {
  struct stat status {};
  if (fstat(file.get(), &status) != 0 || status.st_size == 0) return false;
  return std::chrono::system_clock::from_time_t(status.st_mtim.tv_sec) + std::chrono::seconds(2) > begin;
}

void empty(const Fd& file) {
  // EINVAL: the file has no length, for example /dev/null.
  if (ftruncate(file.get(), 0) != 0 && errno != EINVAL) throw Error(with_errno("--output: cannot empty a file", errno));
}

std::string step_of_job(const Variables& variables) { return variables.get("SLURM_STEP_ID").value_or("0"); }

}  // namespace

bool appends(const std::string& pattern, bool append, const Variables& variables) {
  const std::string restarts = variables.get("SLURM_RESTART_COUNT").value_or("0");
  // Slurm gives its highest numbers to steps without srun, such as the shell of salloc.
  constexpr unsigned long kFirstSpecialStep = 0xfffffff0;
  const unsigned long step = std::strtoul(step_of_job(variables).c_str(), nullptr, 10);
  return append || !names_ranks(pattern) || std::atoi(restarts.c_str()) > 0 || (step > 0 && step < kFirstSpecialStep);
}

std::string batch_job(const Variables& variables) {
  for (const char* name : {"SLURM_JOB_ID", "PBS_JOBID", "LSB_JOBID", "FLUX_JOB_ID"}) {
    if (const auto job = variables.get(name)) return *job;
  }
  return "0";
}

OutputFiles open_output(const std::string& pattern, int rank, const Variables& variables) {
  const OutputNames names{rank, batch_job(variables), host_name(), step_of_job(variables)};
  return {open_to_append(output_file(pattern, names, "out")), open_to_append(output_file(pattern, names, "err"))};
}

void redirect_output(const OutputFiles& files, const std::string& pattern, bool append, const Variables& variables) {
  constexpr const char* kStep = "SLURM_STEP_ID";
  const auto begin = variables.has(kStep) ? begin_of(starter_of_ranks(kStep)) : std::nullopt;
  std::cout.flush();
  std::cerr.flush();
  for (const auto& [file, stream] : {std::pair(&files.out, STDOUT_FILENO), {&files.err, STDERR_FILENO}}) {
    const bool is_of_others = !is_only_writer(*file) || (begin && has_changed_since(*file, *begin));
    if (!is_of_others && !appends(pattern, append, variables)) empty(*file);
    if (dup2(file->get(), stream) < 0) throw Error(with_errno("--output: cannot redirect a stream", errno));
  }
}

}  // namespace mn::launcher

#include <mn/trainer/output_folder.hpp>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <fstream>
#include <system_error>
#include <thread>

#include <fcntl.h>
#include <signal.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include <mn/checkpoint/format/checkpoint_folder.hpp>
#include <mn/comm/on_root.hpp>
#include <mn/core/environment.hpp>
#include <mn/core/error.hpp>
#include <mn/core/file.hpp>
#include <mn/core/json.hpp>
#include <mn/core/launcher_variables.hpp>
#include <mn/core/lock_file.hpp>
#include <mn/core/log.hpp>
#include <mn/core/text.hpp>
#include <mn/core/unix_time.hpp>

namespace mn {
namespace {

using nlohmann::json;

constexpr auto kTimeToSign = std::chrono::seconds(1);  // longest wait until a process that has locked a file signs it
constexpr auto kTimeToEnd = std::chrono::seconds(30);  // longest wait for the end of a process of this job
constexpr auto kTimeToDie = std::chrono::seconds(10);  // longest wait for the end of a process of this host
constexpr const char* kAdvice = ": choose another output folder (--out)";
constexpr std::uint64_t kMinBytes = 64 << 10;  // room for all files of a run except checkpoints

bool is_full(int error_number) { return error_number == ENOSPC || error_number == EDQUOT; }

UsageError not_writable(const std::filesystem::path& folder, int error) {
  return UsageError("the output folder " + folder.string() + " can't be written (" + std::strerror(error) + ")" +
                    kAdvice);
}

std::string job_of_this_process() {
  if (const auto job = environment("SLURM_JOB_ID")) return "Slurm job " + *job;
  const std::string job = job_rank_of_environment(environment).job;
  return job.empty() ? "" : "job " + job;
}

/// Returns when the process `pid` began, in ticks since the machine's start. The pid and this time together are unique.
std::string start_of(pid_t pid) {
  std::ifstream file("/proc/" + std::to_string(pid) + "/stat");
  std::string line;
  std::getline(file, line);
  // proc(5): the fields are read from the last parenthesis on, because field 2 may contain blanks and parentheses.
  InText fields(line.substr(std::min(line.size(), line.rfind(')') + 1)));
  std::string field;
  for (int i = 3; i <= 22; ++i) fields >> field;
  return field;
}

/// The process that a lock file names. An empty host means that the file names none.
struct Owner {
  std::string host;
  pid_t pid = 0;
  std::string start, job, since;
};
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(Owner, host, pid, start, job, since)

Owner this_owner() { return {host_name(), getpid(), start_of(getpid()), job_of_this_process(), utc_text(unix_time())}; }

Owner read_owner(const Fd& file) {
  std::string text(4096, '\0');
  const ssize_t got = pread(file.get(), text.data(), text.size(), 0);
  text.resize(static_cast<std::size_t>(std::max<ssize_t>(got, 0)));
  try {
    return json::parse(text).get<Owner>();
  } catch (const json::exception&) {
    return {};
  }
}

bool is_this_process(const Owner& owner) {
  return owner.host == host_name() && owner.pid == getpid() && owner.start == start_of(getpid());
}

bool is_this_job(const Owner& owner) {
  const std::string job = job_of_this_process();
  return !job.empty() && owner.job == job;
}

/// True if the owner's process may still run. Called only if the file system does not support locks.
bool may_live(const Owner& owner) {
  if (owner.host.empty()) return false;
  // A process of another host cannot be looked up. A process of this job has ended before this process began.
  if (owner.host != host_name()) return !is_this_job(owner);
  return start_of(owner.pid) == owner.start;
}

std::string text_of(const Owner& owner) {
  if (owner.host.empty()) return "another process";
  return "process " + std::to_string(owner.pid) + " on host " + owner.host +
         (owner.job.empty() ? "" : ", " + owner.job) + ", since " + owner.since;
}

bool is_link_of_others(const std::filesystem::path& path) {
  struct stat facts {};
  return ::lstat(path.c_str(), &facts) == 0 && S_ISLNK(facts.st_mode) && facts.st_uid != geteuid() && facts.st_uid != 0;
}

bool may_anyone_write(const std::filesystem::path& folder) {
  struct stat facts {};
  return ::stat(folder.c_str(), &facts) == 0 && (facts.st_mode & S_IWOTH) != 0;
}

/// Invariant 5. snapshot_best is an exception, because mn replaces this link and never writes through it.
void reject_links_of_others(const std::filesystem::path& folder) {
  const std::filesystem::path itself = (folder / "").parent_path();  // without a final slash
  const auto reject = [](const std::filesystem::path& link) {
    throw UsageError(link.string() + " is a link that another user has made, who may mean files of this one" + kAdvice);
  };
  if (is_link_of_others(itself) && may_anyone_write(itself.has_parent_path() ? itself.parent_path() : ".")) {
    reject(itself);
  }
  std::error_code none;
  for (const auto& entry : std::filesystem::directory_iterator(folder, none)) {
    if (entry.path().filename() != "snapshot_best" && is_link_of_others(entry.path())) reject(entry.path());
  }
}

/// Reserves `bytes` bytes for a file, so that the user's quota is checked, too. Returns 0 on success, otherwise errno.
int reserve(const Fd& file, std::uint64_t bytes) {
  if (TEMP_FAILURE_RETRY(fallocate(file.get(), 0, 0, static_cast<off_t>(bytes))) == 0) return 0;
  // Some file systems cannot reserve space. On these, a small write at least finds out whether the quota is used up.
  if (errno != EOPNOTSUPP && errno != ENOSYS) return errno;
  const std::string some(kMinBytes, '\0');
  if (pwrite(file.get(), some.data(), some.size(), 0) < 0 || fsync(file.get()) != 0) return errno;
  return 0;
}

}  // namespace

OutputFolder::OutputFolder(const std::filesystem::path& folder, std::uint64_t bytes)
    : folder_(folder), lock_path_(folder / ".lock") {
  try {
    make_folders(folder_);
  } catch (const FileError& error) {
    throw not_writable(folder_, error.error_number());
  }
  reject_links_of_others(folder_);
  lock();
  const std::filesystem::path checkpoints = checkpoint_path(folder_, 0).parent_path();
  std::error_code none;
  const bool apart = bytes > 0 && std::filesystem::exists(std::filesystem::symlink_status(checkpoints, none));
  if (apart) check_room(checkpoints, bytes);
  check_room(folder_, kMinBytes + (apart ? 0 : bytes));
}

OutputFolder::~OutputFolder() {
  if (lock_ && is_file_at(lock_path_, lock_).value_or(true)) unlink(lock_path_.c_str());
}

void OutputFolder::check_held() const {
  if (!lock_ || is_file_at(lock_path_, lock_).value_or(true)) return;
  throw DataError(lock_path_.string() +
                  ", by which this job holds its output folder, was removed or replaced: the job ends, as another may "
                  "write there by now");
}

void check_held(const OutputFolder* folder, Communicator& comm) {
  on_root<DataError>(
      comm, [folder] { folder->check_held(); }, true);
}

void OutputFolder::check_room(const std::filesystem::path& folder, std::uint64_t bytes) const {
  struct statvfs system {};
  const bool known = statvfs(folder.c_str(), &system) == 0;
  const std::uint64_t free = known ? static_cast<std::uint64_t>(system.f_bavail) * system.f_frsize : bytes;
  int error = ENOSPC;
  if (free >= bytes) {                            // a quota may leave less space than is free
    const TemporaryFile probe(folder / "probe");  // never published
    const Fd file(open(probe.path().c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600));
    error = file ? reserve(file, bytes) : errno;
  }
  if (error == 0) return;
  if (!is_full(error)) throw not_writable(folder, error);
  throw UsageError("the output folder " + folder.string() + " is full (" + std::strerror(error) +
                   "): " + bytes_text(free) + " free, and this run needs at least " + bytes_text(bytes) + kAdvice +
                   ", or free space");
}

/// Returns false if another process holds the lock, or if the locked file was removed meanwhile (invariant 3).
bool OutputFolder::lock_file() {
  lock_ = open_lock_file(lock_path_, O_CREAT, 0644);
  if (!lock_) {
    const int error = errno;
    if (is_full(error)) check_room(folder_, kMinBytes);
    throw not_writable(folder_, error);
  }
  if (flock(lock_.get(), LOCK_EX | LOCK_NB) != 0) {
    if (errno == EWOULDBLOCK || errno == EINTR) return false;
    return !may_live(read_owner(lock_));  // the file system does not support locks
  }
  return is_file_at(lock_path_, lock_).value_or(false);
}

void OutputFolder::lock() {
  const auto begin = std::chrono::steady_clock::now();
  while (!lock_file()) {
    const Owner owner = read_owner(lock_);
    // This process already holds the folder. A second flock(2) would fail, because the first lock still exists.
    if (is_this_process(owner)) return lock_.reset();
    // If the file is empty, a process has just made the file, and has not written its name into it yet.
    const auto patience = owner.host.empty()          ? kTimeToSign
                          : is_this_job(owner)        ? kTimeToEnd
                          : owner.host == host_name() ? kTimeToDie
                                                      : std::chrono::seconds(0);
    if (std::chrono::steady_clock::now() - begin >= patience) {
      throw UsageError("the output folder " + folder_.string() + " is in use by " + text_of(owner) + kAdvice +
                       ", or end that job");
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
  }
  sign();
}

void OutputFolder::sign() const {
  const Owner before = read_owner(lock_);
  if (!before.host.empty() && !is_this_job(before) && before.host != host_name()) {
    log_warning(lock_path_.string() + " was left by " + text_of(before) + ": if that still runs, end one of the two");
  }
  const std::string text = json_text(this_owner()) + "\n";
  const bool written = ftruncate(lock_.get(), 0) == 0 &&
                       pwrite(lock_.get(), text.data(), text.size(), 0) == static_cast<ssize_t>(text.size());
  if (!written) check_room(folder_, kMinBytes);
}

}  // namespace mn

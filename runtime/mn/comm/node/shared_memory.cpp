#include <mn/comm/node/shared_memory.hpp>

#include <algorithm>
#include <cassert>
#include <cerrno>
#include <cstdint>
#include <cstdio>
#include <filesystem>
#include <span>
#include <string>
#include <system_error>

#include <fcntl.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include <mn/comm/calls/call_timeouts.hpp>
#include <mn/comm/mpi/mpi.hpp>
#include <mn/core/fd.hpp>
#include <mn/core/kernel_random.hpp>
#include <mn/core/log.hpp>

namespace mn {
namespace {

constexpr std::size_t kNameBytes = 48;
constexpr std::size_t kHugePageBytes = std::size_t{2} << 20;
constexpr std::size_t kMpiBytesOfRank = std::size_t{8} << 20;  // the most that MPI needs in /dev/shm
constexpr int kCollapse = 25;                                  // MADV_COLLAPSE of Linux 6.1, which older headers lack

std::size_t page_bytes() { return static_cast<std::size_t>(sysconf(_SC_PAGESIZE)); }

/// Returns how many bytes the files in /dev/shm may still need for pages. mn's own files have all their pages.
std::size_t bytes_to_come() {
  std::size_t bytes = 0;
  std::error_code error;
  for (std::filesystem::directory_iterator file("/dev/shm", error), end; !error && file != end; file.increment(error)) {
    struct stat found = {};
    if (file->path().filename().string().starts_with("mn.")) continue;
    if (lstat(file->path().c_str(), &found) != 0 || !S_ISREG(found.st_mode)) continue;
    const auto has = static_cast<std::size_t>(found.st_blocks) * 512;
    bytes += std::max(static_cast<std::size_t>(found.st_size), has) - has;
  }
  return bytes;
}

/// Returns true if MPI's files in /dev/shm can still get all their pages. (4 MiB for each rank with Open MPI.) They get
/// pages only when messages need them, and a rank that gets no page ends with SIGBUS.
bool leaves_room(int descriptor, int ranks) {
  struct statvfs room = {};
  if (fstatvfs(descriptor, &room) != 0) return true;
  // Not the files' lengths alone: other programs may have long files that are never filled.
  const std::size_t least = std::min(static_cast<std::size_t>(ranks) * kMpiBytesOfRank, bytes_to_come());
  return room.f_bavail * room.f_frsize >= least;
}

/// Reserves pages for one of `ranks` segments. Returns 0 on success, otherwise errno.
int reserve(int descriptor, std::size_t offset, std::size_t bytes, int ranks) {
  rlimit most = {};
  // posix_fallocate would raise SIGXFSZ beyond the limit.
  if (getrlimit(RLIMIT_FSIZE, &most) == 0 && offset + bytes > most.rlim_cur) return EFBIG;
  int error = 0;
  do {
    error = posix_fallocate(descriptor, static_cast<off_t>(offset), static_cast<off_t>(bytes));
  } while (error == EINTR);
  // The last rank to reserve pages checks the room for MPI with the pages of all ranks.
  return error == 0 && !leaves_room(descriptor, ranks) ? ENOSPC : error;
}

std::size_t round_up(std::size_t bytes, std::size_t unit) { return (bytes + unit - 1) / unit * unit; }

/// Reserves a range of unused addresses, without access, that begins at a multiple of 2 MiB. On failure returns
/// MAP_FAILED and sets errno.
void* address_for(std::size_t bytes) {
  const std::size_t most = round_up(bytes, page_bytes()) + kHugePageBytes;
  void* const all = mmap(nullptr, most, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (all == MAP_FAILED) return all;
  const auto first = reinterpret_cast<std::uintptr_t>(all);
  const std::size_t before = round_up(first, kHugePageBytes) - first;
  auto* const aligned = static_cast<std::byte*>(all) + before;
  if (before > 0) munmap(all, before);
  const std::size_t used = round_up(bytes, page_bytes());
  munmap(aligned + used, most - before - used);
  return aligned;
}

void make_huge(std::byte* segment, std::size_t bytes) {
  const std::size_t whole = bytes / kHugePageBytes * kHugePageBytes;
  if (whole == 0) return;
  int tries = 3;  // EAGAIN: a page was in use for a moment
  while (madvise(segment, whole, kCollapse) != 0) {
    if (errno == EAGAIN && --tries > 0) continue;
    return log_debug(with_errno("shared memory of " + std::to_string(whole) + " bytes has no huge pages", errno));
  }
}

bool is_own_name(const std::string& name) {
  const std::string begin = "mn." + std::to_string(getuid()) + ".";
  return name.size() == begin.size() + 16 && name.starts_with(begin) &&
         name.find_first_not_of("0123456789abcdef", begin.size()) == std::string::npos;
}

/// Invariant 5: locks the new object for the life of the process. False if a different process has removed its name. A
/// process id in the name could not replace the lock: in another container a process may have the same id.
bool hold(int descriptor) {
  while (flock(descriptor, LOCK_EX) != 0 && errno == EINTR) continue;
  struct stat found = {};
  return fstat(descriptor, &found) != 0 || found.st_nlink > 0;
}

struct Verdict {
  int error;
  int rank;
};

Verdict agree(MPI_Comm node, const Verdict& mine) {
  const KeptForMpi most(mine);
  call_mpi(MPI_Allreduce, MPI_Iallreduce, "comparing what shared memory there is", 0, MPI_IN_PLACE, &*most, 1, MPI_2INT,
           MPI_MAXLOC, node);
  return *most;
}

}  // namespace

/// The object while it has a name. The first rank of the node makes it; the destructor removes the name.
class SharedMemory::Draft {
 public:
  /// What each rank sends: the size of its segment. The first rank also sends the object's name, or an error.
  struct Offer {
    char name[kNameBytes] = {};
    std::uint64_t bytes = 0;
    std::int64_t error = 0;  ///< errno
  };
  static_assert(sizeof(Offer) == 64);

  Draft(bool makes, std::size_t bytes) {
    offer_.bytes = std::max<std::size_t>(bytes, 1);
    if (makes) offer_.error = create();
  }
  ~Draft() {
    if (named_) shm_unlink(offer_.name);
  }

  [[nodiscard]] const Offer& offer() const noexcept { return offer_; }

 private:
  int create() {
    [[maybe_unused]] static const bool once = (remove_abandoned_shared_memory(), true);
    do {
      std::uint64_t random = 0;
      if (const int error = fill_with_random(std::as_writable_bytes(std::span(&random, 1))); error != 0) return error;
      std::snprintf(offer_.name, sizeof offer_.name, "/mn.%u.%016llx", getuid(),
                    static_cast<unsigned long long>(random));
      object_ = Fd(shm_open(offer_.name, O_RDWR | O_CREAT | O_EXCL, S_IRUSR | S_IWUSR));
      if (!object_) return errno;
    } while (!hold(object_.get()));
    named_ = true;
    return 0;
  }

  Offer offer_;
  Fd object_;
  bool named_ = false;
};

void remove_abandoned_shared_memory() {
  std::error_code error;
  for (std::filesystem::directory_iterator file("/dev/shm", error), end; !error && file != end; file.increment(error)) {
    if (!is_own_name(file->path().filename().string())) continue;
    const Fd object(open(file->path().c_str(), O_RDWR | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC));
    struct stat found = {};
    const bool is_own =
        object && fstat(object.get(), &found) == 0 && S_ISREG(found.st_mode) && found.st_uid == getuid();
    if (is_own && flock(object.get(), LOCK_EX | LOCK_NB) == 0) unlink(file->path().c_str());
  }
}

void SharedMemory::Unmap::operator()(std::byte* data) const noexcept { munmap(data, bytes); }

int SharedMemory::map(int descriptor, std::size_t total, std::size_t own_offset) {
  void* const address = address_for(total);  // invariant 6: a multiple of 2 MiB
  if (address == MAP_FAILED) return errno;
  assert(reinterpret_cast<std::uintptr_t>(address) % kHugePageBytes == 0 && own_offset + bytes_ <= total);
  void* const data = mmap(address, total, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED, descriptor, 0);
  if (data == MAP_FAILED) {
    const int error = errno;
    munmap(address, total);
    return error;
  }
  mapping_ = {static_cast<std::byte*>(data), Unmap{total}};
  madvise(data, total, MADV_HUGEPAGE);  // for kernels without MADV_COLLAPSE; an error only costs speed
  // Invariant 4: a page gets memory near the CPU that first touches the page.
  auto* const own = static_cast<volatile std::byte*>(data) + own_offset;
  for (std::size_t at = 0; at < bytes_; at += page_bytes()) own[at] = std::byte{0};
  make_huge(mapping_.get() + own_offset, bytes_);
  return 0;
}

SharedMemory::SharedMemory(MPI_Comm node, std::size_t bytes) : bytes_(bytes) {
  const int rank = rank_in(node);
  const int size = size_of(node);
  const Draft draft(rank == 0, bytes);
  const KeptForMpi all(std::vector<Draft::Offer>(static_cast<std::size_t>(size), draft.offer()));
  const std::vector<Draft::Offer>& offers = *all;
  call_mpi(MPI_Allgather, MPI_Iallgather, "exchanging the name of shared memory", 0, MPI_IN_PLACE, 0, MPI_BYTE,
           all->data(), static_cast<int>(sizeof(Draft::Offer)), MPI_BYTE, node);
  std::size_t total = 0;
  for (const auto& offer : offers) {
    offsets_.push_back(round_up(total, offer.bytes >= kHugePageBytes ? kHugePageBytes : page_bytes()));
    total = offsets_.back() + offer.bytes;
  }
  const std::size_t own_offset = offsets_[static_cast<std::size_t>(rank)];
  auto error = static_cast<int>(rank == 0 ? draft.offer().error : 0);
  if (offers.front().error == 0) {
    const Fd descriptor(shm_open(offers.front().name, O_RDWR, 0));
    error = !descriptor ? errno : reserve(descriptor.get(), own_offset, draft.offer().bytes, size);
    if (error == 0) error = map(descriptor.get(), total, own_offset);
  }
  // Invariants 1 and 4: no rank uses the memory before all segments are reserved.
  if (const Verdict verdict = agree(node, {error, rank}); verdict.error != 0) {
    throw NoSharedMemory("cannot share " + std::to_string(bytes) + " bytes of each of " + std::to_string(size) +
                         " ranks in /dev/shm (" +
                         with_errno("rank " + std::to_string(verdict.rank) + " of the node", verdict.error) + ")");
  }
}

}  // namespace mn

#include <algorithm>
#include <cerrno>
#include <cstdint>
#include <cstdio>
#include <string>

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/random.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <mn/comm/mpi.hpp>
#include <mn/comm/shared_memory.hpp>
#include <mn/core/fd.hpp>

namespace mn {
namespace {

constexpr std::size_t kNameBytes = 48;
constexpr std::size_t kHugePageBytes = std::size_t{2} << 20;
constexpr int kCollapse = 25;  // MADV_COLLAPSE of Linux 6.1, which older headers lack

/// Reserves pages; returns errno, 0 on success.
int reserve(int descriptor, std::size_t bytes) {
  rlimit most = {};
  if (getrlimit(RLIMIT_FSIZE, &most) == 0 && bytes > most.rlim_cur) return EFBIG;  // the call would raise SIGXFSZ
  int error = 0;
  do {
    error = posix_fallocate(descriptor, 0, static_cast<off_t>(bytes));
  } while (error == EINTR);
  return error;
}

/// Collective: the greatest of the ranks' errors with the lowest rank that has it.
struct Verdict {
  int error;
  int rank;
};

Verdict agree(MPI_Comm node, Verdict mine) {
  mpi_check(MPI_Allreduce(MPI_IN_PLACE, &mine, 1, MPI_2INT, MPI_MAXLOC, node), "comparing what shared memory there is");
  return mine;
}

}  // namespace

/// This rank's segment as the others find it; its name goes with it.
class SharedMemory::Draft {
 public:
  /// What the ranks exchange.
  struct Offer {
    char name[kNameBytes] = {};
    std::uint64_t bytes = 0;
    std::int64_t error = 0;  ///< errno
  };
  static_assert(sizeof(Offer) == 64);

  Draft(std::size_t bytes, Mapping& mapping) {
    offer_.bytes = std::max<std::size_t>(bytes, 1);
    offer_.error = create(mapping);
  }
  ~Draft() {
    if (named_) shm_unlink(offer_.name);
  }
  Draft(const Draft&) = delete;
  Draft& operator=(const Draft&) = delete;

  [[nodiscard]] const Offer& offer() const noexcept { return offer_; }

 private:
  int create(Mapping& mapping) {
    std::uint64_t random = 0;
    if (getrandom(&random, sizeof random, 0) != static_cast<ssize_t>(sizeof random)) return errno;
    std::snprintf(offer_.name, sizeof offer_.name, "/mn.%u.%016llx", getuid(), static_cast<unsigned long long>(random));
    const Fd descriptor(shm_open(offer_.name, O_RDWR | O_CREAT | O_EXCL, S_IRUSR | S_IWUSR));
    if (!descriptor) return errno;
    named_ = true;
    if (const int full = reserve(descriptor.get(), offer_.bytes); full != 0) return full;
    const int error = map(descriptor.get(), offer_.bytes, MAP_POPULATE, mapping);
    if (error == 0 && offer_.bytes >= kHugePageBytes) madvise(mapping.data(), offer_.bytes, kCollapse);
    return error;
  }

  Offer offer_;
  bool named_ = false;
};

SharedMemory::Mapping::~Mapping() {
  if (data_ != nullptr) munmap(data_, bytes_);
}

int SharedMemory::map(int descriptor, std::size_t bytes, int flags, Mapping& mapping) {
  void* data = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | flags, descriptor, 0);
  if (data == MAP_FAILED) return errno;
  madvise(data, bytes, MADV_HUGEPAGE);  // for kernels without MADV_COLLAPSE; slower without is no error
  mapping = Mapping(data, bytes);
  return 0;
}

SharedMemory::SharedMemory(MPI_Comm node, std::size_t bytes) : bytes_(bytes) {
  int rank = 0;
  int size = 1;
  mpi_check(MPI_Comm_rank(node, &rank), "MPI_Comm_rank");
  mpi_check(MPI_Comm_size(node, &size), "MPI_Comm_size");
  const auto own = static_cast<std::size_t>(rank);
  segments_.resize(static_cast<std::size_t>(size));
  std::vector<Draft::Offer> offers(segments_.size());
  const Draft draft(bytes, segments_[own]);
  mpi_check(MPI_Allgather(&draft.offer(), sizeof(Draft::Offer), MPI_BYTE, offers.data(), sizeof(Draft::Offer), MPI_BYTE,
                          node),
            "exchanging the names of shared memory");
  auto error = static_cast<int>(draft.offer().error);
  const bool all_made = std::ranges::all_of(offers, [](const auto& offer) { return offer.error == 0; });
  for (std::size_t r = 0; all_made && error == 0 && r < offers.size(); ++r) {
    if (r == own) continue;
    const Fd descriptor(shm_open(offers[r].name, O_RDWR, 0));
    error = descriptor.get() < 0 ? errno : map(descriptor.get(), offers[r].bytes, 0, segments_[r]);
  }
  if (const Verdict verdict = agree(node, {error, rank}); verdict.error != 0) {
    throw NoSharedMemory("cannot share " + std::to_string(bytes) + " bytes of each of " + std::to_string(size) +
                         " ranks in /dev/shm (" +
                         with_errno("rank " + std::to_string(verdict.rank) + " of the node", verdict.error) + ")");
  }
}

}  // namespace mn

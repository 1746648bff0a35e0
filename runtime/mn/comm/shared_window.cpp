#include <cstdint>
#include <cstring>
#include <exception>

#include <sys/statvfs.h>

#include <mn/comm/mpi.hpp>
#include <mn/comm/shared_window.hpp>
#include <mn/core/log.hpp>

namespace mn {
namespace {

constexpr std::size_t kSegmentAlignment = 64;

std::byte* aligned(void* memory) {
  return reinterpret_cast<std::byte*>((reinterpret_cast<std::uintptr_t>(memory) + kSegmentAlignment - 1) / kSegmentAlignment *
                                      kSegmentAlignment);
}

}  // namespace

SharedWindow::SharedWindow(MPI_Comm node, std::size_t bytes) : bytes_(bytes) {
  // Segments need not follow each other: each then starts on a page of its own, near the rank that touches it first.
  MPI_Info info = MPI_INFO_NULL;
  mpi_check(MPI_Info_create(&info), "MPI_Info_create");
  mpi_check(MPI_Info_set(info, "alloc_shared_noncontig", "true"), "MPI_Info_set");
  void* own = nullptr;
  const int code = MPI_Win_allocate_shared(static_cast<MPI_Aint>(bytes + kSegmentAlignment), 1, info, node,
                                           static_cast<void*>(&own), &window_);
  MPI_Info_free(&info);
  mpi_check(code, "MPI_Win_allocate_shared (is /dev/shm full?)", bytes);
  int rank = 0;
  int size = 1;
  mpi_check(MPI_Comm_rank(node, &rank), "MPI_Comm_rank");
  mpi_check(MPI_Comm_size(node, &size), "MPI_Comm_size");
  for (int r = 0; r < size; ++r) {
    MPI_Aint length = 0;
    int unit = 0;
    void* base = nullptr;
    mpi_check(MPI_Win_shared_query(window_, r, &length, &unit, static_cast<void*>(&base)), "MPI_Win_shared_query");
    segments_.push_back(aligned(base));
  }
  std::memset(segment(rank), 0, bytes);
  mpi_check(MPI_Barrier(node), "waiting for the node's shared memory");
}

SharedWindow::~SharedWindow() {
  if (window_ == MPI_WIN_NULL || !mpi_is_up() || std::uncaught_exceptions() > 0) return;
  if (MPI_Win_free(&window_) != MPI_SUCCESS) log_warning("MPI_Win_free failed; the memory is left to MPI_Finalize");
}

bool shared_memory_has_room(MPI_Comm node, std::size_t bytes) {
  struct statvfs state = {};
  int ranks = 1;
  mpi_check(MPI_Comm_size(node, &ranks), "MPI_Comm_size");
  int room =
      statvfs("/dev/shm", &state) != 0 ||
      static_cast<double>(state.f_bavail) * static_cast<double>(state.f_frsize) > static_cast<double>(bytes) * ranks;
  mpi_check(MPI_Allreduce(MPI_IN_PLACE, &room, 1, MPI_INT, MPI_LAND, node), "comparing room for shared memory");
  return room != 0;
}

}  // namespace mn

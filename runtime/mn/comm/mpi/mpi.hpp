/// Owners and checks for MPI handles.
#pragma once

#include <climits>
#include <cstddef>
#include <source_location>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <mpi.h>

#include <mn/core/buffer.hpp>
#include <mn/core/error.hpp>

namespace mn {

/// Thrown if ranks make different calls; what() names the ranks and their calls. The communicator can then only be
/// destroyed.
class CallMismatch : public CommError {
 public:
  using CommError::CommError;
};
/// Part of CallMismatch::what(): the broken rule, and the beginning of the advice. The end of the advice follows.
inline constexpr const char* kSameCalls =
    "all ranks must make the same calls with the same count, dtype, op and root; MN_DEBUG=1";

/// Throws CommError with MPI's own text, the operation, the size and the source line unless `code` is MPI_SUCCESS.
void mpi_check(int code, std::string_view operation = {}, std::size_t bytes = 0,
               std::source_location where = std::source_location::current());

/// Number of the process in `comm`, and number of processes.
/// @{
[[nodiscard]] int rank_in(MPI_Comm comm);
[[nodiscard]] int size_of(MPI_Comm comm);
/// @}

/// True between MPI_Init and MPI_Finalize.
[[nodiscard]] bool mpi_is_up() noexcept;

/// Whether several threads may call MPI at once: the program started MPI with MPI_THREAD_MULTIPLE.
[[nodiscard]] bool mpi_takes_threads();

/// Owns a communicator, always a duplicate or a split of another communicator. MPI's calls on this communicator return
/// their errors (MPI_ERRORS_RETURN); otherwise MPI would end the process before mpi_check() sees an error.
class Mpi {
 public:
  /// Owns no communicator.
  Mpi() noexcept = default;
  /// Calls reset().
  ~Mpi() { reset(); }
  /// `other` owns no communicator afterwards.
  Mpi(Mpi&& other) noexcept : comm_(std::exchange(other.comm_, MPI_COMM_NULL)) {}
  /// Calls reset() first; `other` owns no communicator afterwards.
  Mpi& operator=(Mpi&& other) noexcept {
    if (this != &other) {
      reset();
      comm_ = std::exchange(other.comm_, MPI_COMM_NULL);
    }
    return *this;
  }

  /// Collective over `comm`: makes a duplicate of `comm`.
  [[nodiscard]] static Mpi duplicate(MPI_Comm comm);
  /// Collective over `comm`: the ranks of equal color, ordered by key. A negative color gives an empty owner.
  [[nodiscard]] static Mpi split(MPI_Comm comm, int color, int key);

  /// MPI's handle; MPI_COMM_NULL if empty.
  [[nodiscard]] MPI_Comm get() const noexcept { return comm_; }
  /// Whether a communicator is owned.
  [[nodiscard]] explicit operator bool() const noexcept { return comm_ != MPI_COMM_NULL; }
  /// Rank of the process in the communicator.
  [[nodiscard]] int rank() const { return rank_in(comm_); }
  /// Number of ranks.
  [[nodiscard]] int size() const { return size_of(comm_); }
  /// Frees the communicator, unless MPI is finalized or an exception unwinds the stack, because MPI_Comm_free is
  /// collective.
  void reset() noexcept;

 private:
  explicit Mpi(MPI_Comm comm) noexcept : comm_(comm) {}
  MPI_Comm comm_ = MPI_COMM_NULL;
};

/// The MPI communicators over which the ranks of several nodes reduce. HostCommunicator makes two of these sets: one
/// for itself, and one for its background thread, which must not create communicators of MPI.
struct NodeComms {
  Mpi node;   ///< ranks of the rank's own node
  Mpi peers;  ///< this rank, and the ranks of other nodes with the same slice; empty if there are none
};

/// Tag of the messages of reductions and of collective calls on objects. These messages never share a communicator of
/// MPI with the program's messages.
inline constexpr int kInternalTag = 32767;

/// Collective: the texts of all ranks, in rank order. Makes one MPI_Allgatherv. If all texts together have more than
/// `limit` bytes, makes one MPI_Bcast for each rank instead.
[[nodiscard]] std::vector<std::string> allgather_texts(MPI_Comm comm, const std::string& text,
                                                       std::size_t limit = INT_MAX);

/// Not collective. Returns, for each rank of `part`, the number in `group` of the same process; -1 if the process is
/// not in `group`, for instance because MPI_Comm_spawn() started it.
[[nodiscard]] std::vector<int> ranks_in(MPI_Comm group, MPI_Comm part);
/// Not collective. Whether every process of `part` belongs to `group`. The calling process must belong to `part`.
[[nodiscard]] bool includes(MPI_Comm group, MPI_Comm part);

/// Collective: whether `mine` is true on all ranks.
[[nodiscard]] bool holds_on_all_ranks(MPI_Comm comm, bool mine);

/// MPI's type for one element. 16-bit floats travel as two bytes; MPI never reduces them.
[[nodiscard]] MPI_Datatype mpi_type(DType dtype) noexcept;

/// The arguments for `count` elements in a call of MPI, which takes counts as int. If `count` is at most `limit`, MPI
/// counts the elements. Otherwise MPI counts one element of a derived type that spans all elements. Owns the derived
/// type.
class MpiCount {
 public:
  /// Commits a derived type if count > limit.
  MpiCount(std::size_t count, DType dtype, std::size_t limit);
  /// Frees the derived type.
  ~MpiCount();
  MpiCount(const MpiCount&) = delete;             ///< not copyable
  MpiCount& operator=(const MpiCount&) = delete;  ///< not copyable

  /// The argument `count` of a call of MPI.
  [[nodiscard]] int count() const noexcept { return count_; }
  /// The argument `datatype` of a call of MPI.
  [[nodiscard]] MPI_Datatype type() const noexcept { return type_; }

 private:
  int count_;
  MPI_Datatype type_;
  bool derived_ = false;
};

/// The communicator of MPI for messages, and how many elements one message of MPI may have.
struct MpiChannel {
  MPI_Comm comm;            ///< the communicator of the messages
  std::size_t count_limit;  ///< most elements of one message
};

/// Whether MPI takes device pointers, according to MPIX_Query_cuda_support of the loaded library; false if the library
/// has no such function.
[[nodiscard]] bool mpi_is_cuda_aware() noexcept;

}  // namespace mn

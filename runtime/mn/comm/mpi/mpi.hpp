/// Objects that own handles of MPI, and checks of MPI's return values.
#pragma once

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

/// Thrown if ranks make different calls; what() names the ranks and their calls. Afterwards the communicator can only
/// be destroyed.
class CallMismatch : public CommError {
 public:
  using CommError::CommError;
};
/// Part of the text of a CallMismatch: the broken rule, and the beginning of the advice. The code that throws adds the
/// rest of the advice.
inline constexpr const char* kSameCalls =
    "all ranks must make the same calls with the same count, dtype, op and root; MN_DEBUG=1";

/// Throws CommError unless `code` is MPI_SUCCESS. The error's text has MPI's own text, the operation, the size and the
/// source line.
void mpi_check(int code, std::string_view operation = {}, std::size_t bytes = 0,
               std::source_location where = std::source_location::current());

/// rank_in() returns the number of the calling process in `comm`, and size_of() the number of processes in `comm`.
///
/// @{
[[nodiscard]] int rank_in(MPI_Comm comm);
[[nodiscard]] int size_of(MPI_Comm comm);
/// @}

/// True between MPI_Init and MPI_Finalize.
[[nodiscard]] bool mpi_is_up() noexcept;

/// True if several threads may call MPI at once, because the program started MPI with MPI_THREAD_MULTIPLE.
[[nodiscard]] bool mpi_takes_threads();

/// Owns an MPI communicator, which is always a duplicate or a part of a different communicator. If a call of MPI on the
/// communicator fails, the call returns an error for mpi_check() (MPI_ERRORS_RETURN); by default MPI would end the
/// process.
class Mpi {
 public:
  /// The new object owns no communicator.
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
  /// Collective over `comm`: makes a communicator of the ranks with equal color, ordered by key. A rank with a negative
  /// color gets an object that owns no communicator.
  [[nodiscard]] static Mpi split(MPI_Comm comm, int color, int key);

  /// MPI's handle. MPI_COMM_NULL if the object owns no communicator.
  [[nodiscard]] MPI_Comm get() const noexcept { return comm_; }
  /// True if the object owns a communicator.
  [[nodiscard]] explicit operator bool() const noexcept { return comm_ != MPI_COMM_NULL; }
  /// Rank of the process in the communicator.
  [[nodiscard]] int rank() const { return rank_in(comm_); }
  /// Number of ranks.
  [[nodiscard]] int size() const { return size_of(comm_); }
  /// Frees the communicator, unless an exception is unwinding the stack or MPI is finalized. MPI_Comm_free is
  /// collective, so other ranks might not join it during an exception.
  void reset() noexcept;

 private:
  explicit Mpi(MPI_Comm comm) noexcept : comm_(comm) {}
  MPI_Comm comm_ = MPI_COMM_NULL;
};

/// The MPI communicators for reductions over several nodes. HostCommunicator makes two of these sets: a set for the
/// program's calls and a set for the background thread, because the thread must not create MPI communicators.
struct NodeComms {
  Mpi node;   ///< ranks of the rank's own node
  Mpi peers;  ///< this rank and the ranks of other nodes with the same slice; empty if no other node has this slice
};

/// The tag of mn's own messages, in reductions and in collective calls on objects. These messages never share an MPI
/// communicator with the program's messages.
inline constexpr int kInternalTag = 32767;

/// The largest number of elements in one MPI message. It is INT_MAX, because MPI takes counts as int. Tests lower the
/// limit on all ranks, to test large counts with little memory.
/// @{
[[nodiscard]] std::size_t mpi_count_limit() noexcept;
void set_mpi_count_limit(std::size_t limit) noexcept;
/// @}

/// Collective: returns the texts of all ranks, in rank order. Each MPI_Allgatherv gathers at most mpi_count_limit()
/// bytes.
[[nodiscard]] std::vector<std::string> allgather_texts(MPI_Comm comm, const std::string& text);

/// Not collective. For each rank of `part`, returns the number of the same process in `group`. -1 means that the
/// process is not in `group`, for instance because MPI_Comm_spawn() started it.
[[nodiscard]] std::vector<int> ranks_in(MPI_Comm group, MPI_Comm part);
/// Not collective. True if every process of `part` belongs to `group`. The calling process must belong to `part`.
[[nodiscard]] bool includes(MPI_Comm group, MPI_Comm part);

/// Collective: returns true if `mine` is true on all ranks.
[[nodiscard]] bool holds_on_all_ranks(MPI_Comm comm, bool mine);

/// The MPI type of one element. 16-bit floats are sent as two bytes; MPI never reduces them.
[[nodiscard]] MPI_Datatype mpi_type(DType dtype) noexcept;

/// The arguments `count` and `datatype` by which a call of MPI sends or receives `count` elements. If there are more
/// than mpi_count_limit() elements, the call gets one element of a derived type that spans all of them. The object owns
/// the derived type.
class MpiCount {
 public:
  /// Makes a derived type if count > mpi_count_limit().
  MpiCount(std::size_t count, DType dtype);
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

/// True if MPI takes device pointers, according to its function MPIX_Query_cuda_support. False if the loaded MPI has no
/// such function.
[[nodiscard]] bool mpi_is_cuda_aware() noexcept;

}  // namespace mn

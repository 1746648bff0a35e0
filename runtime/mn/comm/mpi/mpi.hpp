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

namespace mn {

/// Throws CommError with MPI's own text, the operation, its size and line unless `code` is MPI_SUCCESS.
void mpi_check(int code, std::string_view operation = {}, std::size_t bytes = 0,
               std::source_location where = std::source_location::current());

/// True between MPI_Init and MPI_Finalize.
[[nodiscard]] bool mpi_is_up() noexcept;

/// Whether several threads may call MPI at once: it was started with MPI_THREAD_MULTIPLE.
[[nodiscard]] bool mpi_takes_threads();

/// Owns a communicator: always a duplicate or a part of another, with MPI_ERRORS_RETURN, so that checks are reached.
class Mpi {
 public:
  /// Owns none.
  Mpi() noexcept = default;
  /// As reset().
  ~Mpi() { reset(); }
  /// `other` then owns none.
  Mpi(Mpi&& other) noexcept : comm_(std::exchange(other.comm_, MPI_COMM_NULL)) {}
  /// As reset(); `other` then owns none.
  Mpi& operator=(Mpi&& other) noexcept {
    if (this != &other) {
      reset();
      comm_ = std::exchange(other.comm_, MPI_COMM_NULL);
    }
    return *this;
  }

  /// Collective over `comm`: a duplicate.
  [[nodiscard]] static Mpi duplicate(MPI_Comm comm);
  /// Collective over `comm`: the ranks of equal color, ordered by key. A negative color gives an owner of none.
  [[nodiscard]] static Mpi split(MPI_Comm comm, int color, int key);

  /// MPI's handle; MPI_COMM_NULL where this owns none.
  [[nodiscard]] MPI_Comm get() const noexcept { return comm_; }
  /// Whether this owns a communicator.
  [[nodiscard]] explicit operator bool() const noexcept { return comm_ != MPI_COMM_NULL; }
  /// This process's rank in it.
  [[nodiscard]] int rank() const;
  /// Its ranks.
  [[nodiscard]] int size() const;
  /// Frees the communicator, unless MPI is finalized or an exception unwinds (the free is collective).
  void reset() noexcept;

 private:
  explicit Mpi(MPI_Comm comm) noexcept : comm_(comm) {}
  MPI_Comm comm_ = MPI_COMM_NULL;
};

/// The tag of the messages that reductions and collective calls on objects send, on communicators of their own.
inline constexpr int kInternalTag = 32767;

/// Collective: the text of every rank, by rank. One MPI_Allgatherv; where all texts have more than `limit` bytes, one
/// MPI_Bcast for each rank.
[[nodiscard]] std::vector<std::string> allgather_texts(MPI_Comm comm, const std::string& text,
                                                       std::size_t limit = INT_MAX);

/// Collective: whether `mine` is true on all ranks.
[[nodiscard]] bool holds_on_all_ranks(MPI_Comm comm, bool mine);

/// MPI's type for one element; 16-bit floats travel as two bytes and are never reduced by MPI.
[[nodiscard]] MPI_Datatype mpi_type(DType dtype) noexcept;

/// `count` elements in MPI's terms, whose counts are ints: the count itself, or, above `limit`, one element of a
/// derived type that spans them all, which every MPI call takes. Owns the derived type.
class MpiCount {
 public:
  /// Makes a derived type where count > limit.
  MpiCount(std::size_t count, DType dtype, std::size_t limit);
  /// Frees it.
  ~MpiCount();
  MpiCount(const MpiCount&) = delete;             ///< not copyable
  MpiCount& operator=(const MpiCount&) = delete;  ///< not copyable

  /// For MPI's `count`.
  [[nodiscard]] int count() const noexcept { return count_; }
  /// For MPI's `datatype`.
  [[nodiscard]] MPI_Datatype type() const noexcept { return type_; }

 private:
  int count_;
  MPI_Datatype type_;
  bool derived_ = false;
};

/// Where messages travel, and how many elements one of MPI's messages may count.
struct MpiChannel {
  MPI_Comm comm;
  std::size_t count_limit;
};

/// Whether MPI takes device pointers, as MPIX_Query_cuda_support of the loaded library says; false where it has none.
[[nodiscard]] bool mpi_is_cuda_aware() noexcept;

}  // namespace mn

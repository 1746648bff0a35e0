/// Owners and checks for MPI handles.
#pragma once

#include <mpi.h>

#include <source_location>
#include <string_view>
#include <utility>

#include <mn/comm/buffer.hpp>

namespace mn {

/// Throws CommError with MPI's own text, the operation and its size unless `code` is MPI_SUCCESS.
void mpi_check(int code, std::string_view operation = {}, std::size_t bytes = 0,
               std::source_location where = std::source_location::current());

/// Owns a communicator: always a duplicate or a part of another, with MPI_ERRORS_RETURN, so that checks are reached.
class Mpi {
 public:
  Mpi() noexcept = default;
  ~Mpi() { reset(); }
  Mpi(Mpi&& other) noexcept : comm_(std::exchange(other.comm_, MPI_COMM_NULL)) {}
  Mpi& operator=(Mpi&& other) noexcept {
    if (this != &other) {
      reset();
      comm_ = std::exchange(other.comm_, MPI_COMM_NULL);
    }
    return *this;
  }

  /// Collective over `comm`.
  [[nodiscard]] static Mpi duplicate(MPI_Comm comm);
  /// Collective over `comm`; a negative colour gives an empty owner.
  [[nodiscard]] static Mpi split(MPI_Comm comm, int color, int key);

  [[nodiscard]] MPI_Comm get() const noexcept { return comm_; }
  [[nodiscard]] explicit operator bool() const noexcept { return comm_ != MPI_COMM_NULL; }
  [[nodiscard]] int rank() const;
  [[nodiscard]] int size() const;
  /// Frees the communicator, unless MPI is finalized or an exception unwinds (the free is collective).
  void reset() noexcept;

 private:
  explicit Mpi(MPI_Comm comm) noexcept : comm_(comm) {}
  MPI_Comm comm_ = MPI_COMM_NULL;
};

/// MPI's type for integers and floats that MPI can move; 16-bit floats travel as two bytes and are never reduced by MPI.
[[nodiscard]] MPI_Datatype mpi_type(DType dtype) noexcept;
[[nodiscard]] MPI_Op mpi_op(ReduceOp op) noexcept;

}  // namespace mn

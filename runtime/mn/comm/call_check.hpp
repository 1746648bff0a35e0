/// What stands in front of every call of a communicator: its own checks and, in debug mode, a comparison between ranks.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include <mpi.h>

#include <mn/core/buffer.hpp>
#include <mn/core/error.hpp>

namespace mn {

/// In debug mode ranks tell each other what they are about to do before each collective call: calls that differ in
/// operation, count, dtype, op or root, arguments that one rank refuses, and gradients that are not finite become the
/// same ArgumentError on every rank, which names the rank and the argument. It costs two small MPI_Allgather a call;
/// each call is logged at level debug.
class CallCheck {
 public:
  /// Collective over `comm`, which is borrowed. Debug mode is on if one rank asks for it.
  CallCheck(MPI_Comm comm, bool debug);

  /// `checks()` throws ArgumentError; `details()` says what all ranks must have in common, in lines.
  template <class Checks, class Details>
  void collective(std::string_view operation, const Checks& checks, const Details& details) {
    require_open(operation);
    if (!debug_) {
      checks();
      return;
    }
    std::string refusal;
    try {
      checks();
    } catch (const ArgumentError& error) {
      refusal = error.what();
    }
    compare(operation, std::string(operation) + details(), refusal);
  }
  /// Throws ArgumentError after close().
  void require_open(std::string_view operation) const;
  /// From now on every call is refused.
  void close() noexcept { open_ = false; }
  [[nodiscard]] bool debug() const noexcept { return debug_; }

 private:
  void compare(std::string_view operation, const std::string& call, const std::string& refusal);

  MPI_Comm comm_;
  bool debug_;
  bool open_ = true;
  std::uint64_t calls_ = 0;
};

/// " of 7 float32"
[[nodiscard]] std::string described(const ConstBufferView& buffer);
/// ", root 3"
[[nodiscard]] std::string from_root(int root);

/// Where a host buffer of floats is not finite ("nan at element 3"); empty if it is everywhere, or holds integers.
[[nodiscard]] std::string first_non_finite(const ConstBufferView& buffer);

}  // namespace mn

/// The header of a message between two ranks, sent before the elements: 16 bytes, in the byte order of the machine.
#pragma once

#include <cstdint>
#include <string>

#include <mpi.h>

#include <mn/comm/mpi/mpi.hpp>
#include <mn/core/buffer.hpp>

namespace mn {

struct MessageHeader {
  std::uint32_t magic = 0;
  std::uint32_t dtype = 0;
  std::uint64_t count = 0;

  [[nodiscard]] static MessageHeader of(const ConstBufferView& buffer);
  /// True if a message of `bytes` bytes is a whole header that MessageHeader::of() has made.
  [[nodiscard]] bool is_whole(int bytes) const noexcept;
  /// True if a message with elements follows this header. `bytes` is the size of the received header.
  [[nodiscard]] bool announces_elements(int bytes) const noexcept { return is_whole(bytes) && count > 0; }
  /// Throws CommError, whose text begins with `what`, unless the header is whole and fits the buffer `expected`.
  void check(int bytes, const ConstBufferView& expected, const std::string& what) const;
};
static_assert(sizeof(MessageHeader) == 16);

[[nodiscard]] int received_bytes(const MPI_Status& status);
/// The name of a send in errors, for instance "send of 7 float32 to rank 1".
[[nodiscard]] std::string describe_send(const ConstBufferView& buffer, int dest);
/// The name of a receive in errors: "recv from rank 1", or "recv from any rank" if `source` is MPI_ANY_SOURCE.
[[nodiscard]] std::string describe_recv(int source);

/// Sends a message in debug mode. Waits for the receiver whatever the size of the message: a program that relies on
/// MPI's buffers for small messages would hang with larger ones. Logs a line that names the send as `what` if the
/// receiver is late.
void send_in_debug_mode(const ConstBufferView& buffer, const MpiCount& n, int dest, int tag, MPI_Comm comm,
                        const std::string& what);

}  // namespace mn

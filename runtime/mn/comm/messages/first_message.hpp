/// The first message of MPI that send() and isend() make: a header of 16 bytes, a head, and the elements if they are
/// few. More elements follow in a second message of MPI. All numbers have the byte order of the machine.
///
/// The head is for a receiver that does not know how many elements come (headed_messages.hpp). Most messages have none.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>

#include <mpi.h>

#include <mn/comm/mpi/mpi.hpp>
#include <mn/core/buffer.hpp>

namespace mn {

class FirstMessage {
 public:
  static constexpr std::size_t kMaxHead = 192;          ///< bytes
  static constexpr std::size_t kMaxElements = 8 << 10;  ///< bytes

  /// True if the first message holds the elements, so that no second message follows.
  [[nodiscard]] static bool holds(const ConstBufferView& elements) noexcept { return elements.bytes() <= kMaxElements; }

  /// Has room for any first message.
  FirstMessage();
  /// Both buffers lie on the host. The elements are not read unless the first message holds them.
  FirstMessage(const ConstBufferView& head, const ConstBufferView& elements);
  ~FirstMessage();
  FirstMessage(FirstMessage&&) noexcept = default;
  FirstMessage& operator=(FirstMessage&&) noexcept = default;

  [[nodiscard]] void* data() const noexcept { return bytes_.get(); }
  [[nodiscard]] int size() const noexcept { return size_; }
  /// Tells how many bytes were received.
  void set_size(int bytes) noexcept { size_ = bytes; }

  /// True if elements follow in a second message.
  [[nodiscard]] bool announces_elements() const noexcept;
  /// Throws CommError, whose text begins with `what`, unless this is a whole first message whose head fits `head`, to
  /// which it copies the head.
  void take_head(const BufferView& head, const std::string& what) const;
  /// Throws CommError, whose text begins with `what`, unless the elements have the count and dtype of `expected`.
  void check(const ConstBufferView& expected, const std::string& what) const;
  /// Copies the elements, which the first message holds, to a buffer on the host. Call check() first.
  void take_elements(const BufferView& out) const;

 private:
  struct Header {
    std::uint32_t magic = 0;
    std::uint16_t dtype = 0;
    std::uint16_t head_bytes = 0;
    std::uint64_t count = 0;
  };
  [[nodiscard]] Header header() const noexcept;
  /// True if the bytes are a header and its head, and all elements if the first message holds them.
  [[nodiscard]] bool is_whole() const noexcept;

  static constexpr std::size_t kRoom = sizeof(Header) + kMaxHead + kMaxElements;
  std::unique_ptr<std::byte[]> bytes_;  // [kRoom]
  int size_ = kRoom;
};

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

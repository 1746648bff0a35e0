/// Blocking messages whose receiver learns from a head what follows. Communicator::send() and recv() make messages
/// without a head.
#pragma once

#include <functional>

#include <mn/comm/communicator.hpp>
#include <mn/core/buffer.hpp>

namespace mn {

class HeadedMessages {
 public:
  /// Returns the buffer for the elements, once the head is there.
  using Elements = std::function<BufferView(int source)>;

  /// `head` lies on the host, and has at most FirstMessage::kMaxHead bytes. The elements may lie on the device.
  static void send(Communicator& comm, ConstBufferView head, ConstBufferView elements, int dest, int tag);
  /// Fills `head`, which must have as many bytes as the sender's, and then the elements. Returns the sender's rank.
  /// `source` and exceptions are as for Communicator::recv().
  static int recv(Communicator& comm, BufferView head, const Elements& elements, int source, int tag);

 private:
  friend class Communicator;
  static int receive(Communicator& comm, BufferView head, const Elements& elements, int source, int tag);
};

}  // namespace mn

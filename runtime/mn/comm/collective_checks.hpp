/// Checks of the arguments of blocking and nonblocking collective calls. If an argument is wrong, they throw an
/// ArgumentError that names the call (`operation`).
#pragma once

#include <string_view>

#include <mn/comm/calls/call_check.hpp>
#include <mn/comm/communicator.hpp>

namespace mn {

inline void check_bcast(std::string_view operation, const Communicator& comm, const BufferView& buffer, int root) {
  check_rank(operation, "root", root, comm.size());
  check_buffer(operation, "buffer", buffer, comm.device());
}

inline void check_allgather(std::string_view operation, const Communicator& comm, const ConstBufferView& send,
                            const BufferView& recv) {
  check_buffers(operation, send, recv, comm.device());
  check_parts(operation, "recv", recv, "send", send, comm.size());
  check_in_place(operation, recv, send, comm.rank());
}

inline void check_allreduce(std::string_view operation, const Communicator& comm, const BufferView& buffer,
                            ReduceOp op) {
  check_buffer(operation, "buffer", buffer, comm.device());
  check_reducible(operation, buffer, op);
}

inline void check_reduce_scatter(std::string_view operation, const Communicator& comm, const ConstBufferView& send,
                                 const BufferView& recv, ReduceOp op) {
  check_buffers(operation, send, recv, comm.device());
  check_parts(operation, "send", send, "recv", recv, comm.size());
  check_in_place(operation, send, recv, comm.rank());
  check_reducible(operation, recv, op);
}

}  // namespace mn

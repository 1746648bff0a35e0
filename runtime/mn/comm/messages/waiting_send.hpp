/// Debug mode's send, for send() and send_obj(). It waits for its receiver whatever the size: a program that relies on
/// MPI's buffers hangs with small messages too, and is found.
#pragma once

#include <string>

#include <mpi.h>

#include <mn/comm/mpi/mpi.hpp>
#include <mn/core/buffer.hpp>

namespace mn {

/// A synchronous MPI_Send that logs a line if its receiver is late. `what` names the send in messages.
void send_in_debug_mode(const ConstBufferView& buffer, const MpiCount& n, int dest, int tag, MPI_Comm comm,
                        const std::string& what);

}  // namespace mn

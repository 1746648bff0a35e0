/// Debug mode's send, which waits for its receiver whatever the size: a program that relies on MPI's buffers is found
/// with small messages too. send() and send_obj() call it.
#pragma once

#include <string>

#include <mpi.h>

#include <mn/comm/mpi/mpi.hpp>
#include <mn/core/buffer.hpp>

namespace mn {

/// MPI_Send that waits for the receiver, and says so when that takes long. `what` is for messages.
void send_in_debug_mode(const ConstBufferView& buffer, const MpiCount& n, int dest, int tag, MPI_Comm comm,
                        const std::string& what);

}  // namespace mn

// MPI as one that takes device buffers: it reads and writes them at once, because it knows no streams. The calls that
// mn::comm gives device buffers stand before the library's, through MPI's profiling interface.
#include <mpi.h>

#include "tests/support/stand_in_gpu/memory.hpp"

namespace {

/// What the stand-in sees of device memory; any other address as it is.
void* reach(const void* buffer) {
  using namespace mn::stand_in;
  void* const as_it_is = const_cast<void*>(buffer);
  if (buffer == MPI_IN_PLACE || memory().kind_of(buffer) != MemoryKind::kDevice) return as_it_is;
  return memory().alias(buffer, 1);
}

}  // namespace

extern "C" {

int MPIX_Query_cuda_support() { return 1; }

int MPI_Send(const void* data, int count, MPI_Datatype type, int dest, int tag, MPI_Comm comm) {
  return PMPI_Send(reach(data), count, type, dest, tag, comm);
}

int MPI_Recv(void* data, int count, MPI_Datatype type, int source, int tag, MPI_Comm comm, MPI_Status* status) {
  return PMPI_Recv(reach(data), count, type, source, tag, comm, status);
}

int MPI_Isend(const void* data, int count, MPI_Datatype type, int dest, int tag, MPI_Comm comm, MPI_Request* request) {
  return PMPI_Isend(reach(data), count, type, dest, tag, comm, request);
}

int MPI_Irecv(void* data, int count, MPI_Datatype type, int source, int tag, MPI_Comm comm, MPI_Request* request) {
  return PMPI_Irecv(reach(data), count, type, source, tag, comm, request);
}

int MPI_Bcast(void* data, int count, MPI_Datatype type, int root, MPI_Comm comm) {
  return PMPI_Bcast(reach(data), count, type, root, comm);
}

int MPI_Gather(const void* send, int send_count, MPI_Datatype send_type, void* recv, int recv_count,
               MPI_Datatype recv_type, int root, MPI_Comm comm) {
  return PMPI_Gather(reach(send), send_count, send_type, reach(recv), recv_count, recv_type, root, comm);
}

int MPI_Allgather(const void* send, int send_count, MPI_Datatype send_type, void* recv, int recv_count,
                  MPI_Datatype recv_type, MPI_Comm comm) {
  return PMPI_Allgather(reach(send), send_count, send_type, reach(recv), recv_count, recv_type, comm);
}

int MPI_Alltoall(const void* send, int send_count, MPI_Datatype send_type, void* recv, int recv_count,
                 MPI_Datatype recv_type, MPI_Comm comm) {
  return PMPI_Alltoall(reach(send), send_count, send_type, reach(recv), recv_count, recv_type, comm);
}

int MPI_Scatter(const void* send, int send_count, MPI_Datatype send_type, void* recv, int recv_count,
                MPI_Datatype recv_type, int root, MPI_Comm comm) {
  return PMPI_Scatter(reach(send), send_count, send_type, reach(recv), recv_count, recv_type, root, comm);
}

}  // extern "C"

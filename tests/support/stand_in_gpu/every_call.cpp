// A job in which mn::comm makes each call of CUDA and NCCL that it ever makes, on two nodes, and which then ends well.
// What happens where one of them fails is fail_each_call's to see.
#include <chrono>
#include <csignal>
#include <cstdlib>
#include <string>
#include <thread>

#include <mpi.h>

#include <mn/comm/communicator.hpp>
#include <mn/comm/device/cuda.hpp>
#include <mn/comm/device/device_collectives.hpp>
#include <mn/job/job.hpp>

#include "tests/comm/device_memory.hpp"

namespace mn {
namespace {

using testing::OnDevice;

void call_all(Communicator& comm) {
  const auto ranks = static_cast<std::size_t>(comm.size());
  const OnDevice<float> part(std::vector<float>(100, 1), comm.device());
  const OnDevice<float> whole(std::vector<float>(100 * ranks, 1), comm.device());
  comm.allreduce(part.view());
  comm.bcast(part.view());
  comm.allgather(part.view(), whole.view());
  comm.alltoall(whole.view(), OnDevice<float>(std::vector<float>(100 * ranks, 1), comm.device()).view());
  comm.reduce_scatter(whole.view(), part.view());
  comm.gather(part.view(), whole.view());
  const BufferView first = whole.view().slice(0, 33);
  const BufferView second = whole.view().slice(33, 67);
  for (int step = 0; step < 3; ++step) {
    comm.sum_gradients(std::vector{first, second}, 0.5);
    comm.sum_gradients(std::vector{second, first}, 0.5);
  }
}

[[noreturn]] void lose(int rank, const Job& job) {
  CommunicatorOptions options;
  options.device = {DeviceType::kCuda, job.rank()};
  const auto comm = create_communicator("pure_nccl", MPI_COMM_WORLD, options);
  const OnDevice<float> gradient(std::vector<float>(3'000'000, 1), *options.device);
  std::thread([&] {
    std::this_thread::sleep_for(std::chrono::milliseconds(200));
    if (job.rank() == rank) std::raise(SIGKILL);
  }).detach();
  while (true) comm->sum_gradients(std::vector{gradient.view()}, 0.5);
}

int run(const Job& job) {
  const Device device{DeviceType::kCuda, job.rank()};
  setenv("STAND_IN_WINDOWS", "1", 1);
  setenv("MN_NCCL_WINDOWS", "on", 1);
  setenv("MN_NODE_NAME", ("node" + std::to_string(job.rank() % 2)).c_str(), 1);
  for (const char* backend : {"pure_nccl", "hierarchical", "two_dimensional", "flat"}) {
    CommunicatorOptions options;
    options.device = device;
    const auto comm = create_communicator(backend, MPI_COMM_WORLD, options);
    call_all(*comm);
    call_all(*comm->split(0, comm->rank()));
    DeviceCollectives* const collectives = comm->device_collectives();
    if (collectives == nullptr) continue;
    const CudaStream stream(device.index);
    const OnDevice<float> buffer(std::vector<float>(100, 1), device);
    collectives->after(stream.handle());
    collectives->sum_gradients(std::vector{buffer.view().slice(50, 50), buffer.view().slice(0, 50)}, 0.5);
    collectives->join(stream.handle());
    collectives->wait();
    static_cast<void>(collectives->allocate(4096));
  }
  return 0;
}

}  // namespace
}  // namespace mn

int main(int argc, char** argv) {
  return mn::run_job(argc, argv, [&](const mn::Job& job) {
    if (argc > 2 && argv[1] == std::string("lose")) mn::lose(std::stoi(argv[2]), job);
    return mn::run(job);
  });
}

// broken_call HOW BACKEND: a job in which the last rank breaks an allreduce of all ranks HOW: missing (no call), counts
// (a different count), killed (the rank dies in the call), left (the rank returns from main).
#include <chrono>
#include <csignal>
#include <cstdlib>
#include <fstream>
#include <string>
#include <thread>
#include <vector>

#include <mn/comm/communicator.hpp>
#include <mn/comm/device/cuda.hpp>
#include <mn/job/job.hpp>

namespace {

constexpr std::size_t kCount = 1'000'000;

/// Touches the file MN_FAILING_STAMP: the time from the failure to the job's end begins.
void stamp() {
  if (const char* path = std::getenv("MN_FAILING_STAMP")) std::ofstream(path).put('\n');
}

void break_call(mn::Communicator& comm, const std::string& how, mn::BufferView values) {
  stamp();
  if (how == "missing") std::this_thread::sleep_for(std::chrono::minutes(2));
  while (how == "counts") comm.allreduce(values.slice(0, 10));
  std::thread([] {
    std::this_thread::sleep_for(std::chrono::milliseconds(200));
    std::raise(SIGKILL);
  }).detach();
  while (true) comm.allreduce(values);
}

int run(const std::string& how, const std::string& backend) {
  const auto comm = mn::create_communicator(backend);
  std::vector<float> on_host(kCount);
  mn::BufferView values(on_host);
  mn::CudaMemory on_device;
  if (comm->device().type == mn::DeviceType::kCuda) {
    on_device = mn::cuda_allocate(values.bytes());
    values = {on_device.get(), kCount, mn::DType::kFloat32, comm->device()};
  }
  comm->barrier();
  const bool breaks = comm->rank() == comm->size() - 1;
  if (breaks && how == "left") return stamp(), 0;
  if (breaks) break_call(*comm, how, values);
  while (true) comm->allreduce(values);
}

}  // namespace

int main(int argc, char** argv) {
  return mn::run_job(argc, argv, [&](mn::Job& /*job*/) { return run(argv[1], argv[2]); });
}

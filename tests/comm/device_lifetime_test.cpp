// Communicators on GPUs come and go without leaving streams, events or memory behind. The stand-in counts them.
#include <gmock/gmock.h>

#include <mn/core/error.hpp>

#include "tests/comm/gpu_fixture.hpp"
#include "tests/support/stand_in_gpu/calls.hpp"
#include "tests/support/stand_in_gpu/machine.hpp"
#include "tests/support/stand_in_gpu/memory.hpp"

namespace mn {
namespace {

using ::testing::HasSubstr;
using testing::OnDevice;
using testing::OnGpu;
using ::testing::ThrowsMessage;
using testing::two_pieces;

/// Streams, events and allocations that live.
std::vector<std::size_t> alive() {
  const auto lock = stand_in::machine().lock();
  return {stand_in::machine().streams().size(), stand_in::machine().events(), stand_in::memory().count()};
}

TEST_F(OnGpu, CommunicatorsLeaveNothing) {
  const OnDevice<float> gradient(std::vector<float>(5001, 1.0F), device_);
  const auto before = alive();
  for (int cycle = 0; cycle < 3; ++cycle) {
    for (const std::string& backend : communicator_names(DeviceType::kCuda)) {
      pretend_nodes(backend == "single_node" ? 1 : 2);
      const auto comm = create(backend, {}, cycle == 1);
      comm->allreduce_grad(two_pieces(gradient.view(), true), 1.0 / size_);
      comm->allreduce_grad(two_pieces(gradient.view(), false), 1.0 / size_);
      comm->bcast(gradient.view());
      if (cycle == 2) comm->finalize();
    }
    EXPECT_EQ(alive(), before);
  }
}

TEST_F(OnGpu, AStreamThatCannotBeMadeLeavesNothing) {
  const auto before = alive();
  stand_in::fail_call("cudaStreamCreateWithPriority", 1);
  EXPECT_THROW(CudaStream(device_.index), CommError);
  EXPECT_EQ(alive(), before);
}

/// As after every error of NCCL: no rank is left waiting in a call that another one never joins.
TEST_F(OnGpu, AnOperatorThatCannotBeMadeAbortsTheCommunicator) {
  const OnDevice<float> gradient(std::vector<float>(100, 1.0F), device_);
  const auto run = [&] {
    const auto comm = create("pure_nccl");
    const auto reduce = [&] { comm->allreduce_grad(std::vector{gradient.view()}, 0.5); };
    stand_in::fail_call("ncclRedOpCreatePreMulSum", 1);
    EXPECT_THAT(reduce, ThrowsMessage<CommError>(HasSubstr("of 400 bytes failed")));
    reduce();
  };
  EXPECT_THAT(run, ThrowsMessage<CommError>(HasSubstr("aborted after an error")));
  MPI_Barrier(MPI_COMM_WORLD);
}

}  // namespace
}  // namespace mn

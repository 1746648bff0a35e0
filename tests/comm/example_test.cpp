// The example in the head of <mn/comm/communicator.hpp>.
#include <vector>

#include <gtest/gtest.h>

#include <mn/comm/communicator.hpp>

namespace {

TEST(Example, OfCommunicator) {
  int world_rank = 0;
  MPI_Comm_rank(MPI_COMM_WORLD, &world_rank);
  const auto local_loss = static_cast<float>(world_rank);
  const auto compute = [](const std::vector<float>& weights) { EXPECT_EQ(weights.size(), 1000U); };

  auto comm = mn::create_communicator("auto");  // collective over MPI_COMM_WORLD
  std::vector<float> loss{local_loss}, weights(1000);
  comm->bcast(weights);  // every rank has rank 0's weights
  mn::Request mean = comm->iallreduce(loss, mn::ReduceOp::kAverage);
  compute(weights);  // while the sum is under way
  mean.wait();

  EXPECT_EQ(2 * loss[0], static_cast<float>(comm->size() - 1));
}

}  // namespace

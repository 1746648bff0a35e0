// Collectives on a thread: in order, beside the main thread's, with errors that reach wait().
#include <future>
#include <memory>
#include <stdexcept>
#include <vector>

#include <gtest/gtest.h>

#include <mn/comm/communication_thread.hpp>

namespace mn {
namespace {

std::shared_ptr<Communicator> world() {
  CommunicatorOptions options;
  options.device = Device();
  return create_communicator("hierarchical", MPI_COMM_WORLD, options);
}

TEST(CommunicationThread, RunsInOrderBesideTheMainThread) {
  const auto comm = world();
  CommunicationThread thread(*comm);
  for (int round = 0; round < 20; ++round) {
    std::vector<int> background(5000, 1);
    std::vector<int> order;
    thread.submit([&](Communicator& other) {
      other.allreduce(background);
      order.push_back(1);
    });
    thread.submit([&](Communicator& other) {
      other.allreduce(background);
      order.push_back(2);
    });
    std::vector<int> foreground(3000, 1);
    comm->allreduce(foreground);
    EXPECT_EQ(foreground.back(), comm->size());
    thread.wait();
    EXPECT_EQ(background.back(), comm->size() * comm->size());
    EXPECT_EQ(order, (std::vector<int>{1, 2}));
  }
}

TEST(CommunicationThread, AnErrorReachesWhoWaits) {
  const auto comm = world();
  bool ran = false;
  {
    CommunicationThread thread(*comm);
    std::promise<void> started;
    std::promise<void> queued;
    thread.submit([&](Communicator&) {
      started.set_value();
      queued.get_future().wait();
      throw std::runtime_error("lost");
    });
    started.get_future().wait();
    thread.submit([&](Communicator&) { ran = true; });  // also while another task runs
    queued.set_value();
    EXPECT_THROW(thread.wait(), std::runtime_error);
    thread.submit([&](Communicator&) { ran = true; });
    EXPECT_THROW(thread.wait(), std::runtime_error) << "once lost, always lost";
  }
  EXPECT_FALSE(ran) << "what was behind the error is not run";
}

TEST(CommunicationThread, EndsWithItsTasksDone) {
  const auto comm = world();
  std::vector<int> values(100, 1);
  {
    CommunicationThread thread(*comm);
    for (int i = 0; i < 5; ++i) {
      thread.submit([&](Communicator& other) { other.bcast(values); });
    }
    thread.submit([&](Communicator&) { values[0] = 7; });
  }
  EXPECT_EQ(values[0], 7);
}

}  // namespace
}  // namespace mn

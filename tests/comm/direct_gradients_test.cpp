// Gradients between nodes with an MPI that takes device memory: from GPU to GPU, with the sums of the way through the
// host.
#include <cmath>
#include <cstring>
#include <random>

#include "tests/comm/gpu_fixture.hpp"
#include "tests/support/stand_in_gpu/calls.hpp"

namespace mn {
namespace {

using testing::OnDevice;
using testing::OnGpu;

class DirectGradients : public OnGpu {
 protected:
  DirectGradients() { pretend_nodes(2); }
};

TEST_F(DirectGradients, AreNotCopiedToTheHost) {
  const auto comm = create("hierarchical");
  const auto gradient = mine<float>(100'003);
  stand_in::fail_call("cudaMemcpyAsync", 1);
  EXPECT_NO_THROW(comm->sum_gradients(std::vector{gradient.view()}, 0.5));
  stand_in::fail_call("", 1);
  expect_sums(gradient, 0.5);
}

TEST_F(DirectGradients, HaveTheBitsOfTheWayThroughTheHost) {
  testing::for_each_type([&]<class T>() {
    if constexpr (!std::is_integral_v<T>) {
      std::mt19937 random(static_cast<unsigned>(rank_));
      std::vector<T> values(3'000'001);  // several pieces, and an odd rest
      for (T& x : values) x = testing::element_of<T>(std::ldexp(static_cast<float>(random() % 999) - 500, -8));
      std::vector<std::vector<T>> sums;
      for (const char* backend : {"two_dimensional", "non_cuda_aware"}) {
        const OnDevice<T> gradient(values, device_);
        create(backend)->sum_gradients(std::vector{gradient.view()}, 1.0 / size_);
        sums.push_back(gradient.get());
      }
      EXPECT_EQ(std::memcmp(sums[0].data(), sums[1].data(), values.size() * sizeof(T)), 0);
    }
  });
}

}  // namespace
}  // namespace mn

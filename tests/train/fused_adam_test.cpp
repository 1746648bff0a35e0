// Adam and AdamW in one kernel against torch's.
#include <sstream>

#include <mn/optimizers/fused_adam.hpp>

#include "optimizer_fixture.hpp"

namespace mn {
namespace {

template <class Kinds>
class FusedAdamTest : public testing::Test {};

struct AdamKinds {
  using Torchs = torch::optim::Adam;
  using Fused = FusedAdam;
  using Options = torch::optim::AdamOptions;
};
struct AdamWKinds {
  using Torchs = torch::optim::AdamW;
  using Fused = FusedAdamW;
  using Options = torch::optim::AdamWOptions;
};
using AllKinds = testing::Types<AdamKinds, AdamWKinds>;
TYPED_TEST_SUITE(FusedAdamTest, AllKinds);

TYPED_TEST(FusedAdamTest, StepsAsTorchsAndTakesItsState) {
  for (const bool amsgrad : {false, true}) {
    const auto options = typename TypeParam::Options(0.05).weight_decay(0.1).amsgrad(amsgrad);
    Net a;
    Net b;
    typename TypeParam::Torchs theirs(a.parameters(), options);
    typename TypeParam::Fused ours(b.parameters(), options);
    const auto run = [&](Net& net, torch::optim::Optimizer& optimizer, int k) {
      torch::manual_seed(k);
      net.zero_grad();
      net.forward(torch::randn({4, 5}), k % 2 == 0).pow(2).sum().backward();  // counts differ between the layers
      optimizer.step();
    };
    const auto expect_same = [&](int k) {
      for (std::size_t i = 0; i < a.parameters().size(); ++i) {
        EXPECT_TRUE(torch::allclose(a.parameters()[i], b.parameters()[i], 1e-5, 1e-6))
            << "step " << k << " parameter " << i;
      }
    };
    for (int k = 0; k < 5; ++k) {
      run(a, theirs, k);
      run(b, ours, k);
      expect_same(k);
    }
    std::stringstream saved;
    torch::save(theirs, saved);
    torch::load(ours, saved);
    run(a, theirs, 6);
    run(b, ours, 6);
    expect_same(6);
  }
}

}  // namespace
}  // namespace mn

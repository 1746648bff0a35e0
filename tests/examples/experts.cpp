// A mixture of experts: the ranks divide the experts among themselves, and each token travels to the ranks of the two
// experts that the router chooses for it. One optimizer trains everything.
#include <torch/torch.h>

#include <mn/mn.hpp>

using torch::nn::functional::cross_entropy;

constexpr std::int64_t kWidth = 16;

struct Net : torch::nn::Module {
  explicit Net(const std::shared_ptr<mn::Communicator>& comm) {
    mn::MixtureOfExpertsOptions form{.width = kWidth, .hidden = 2 * kWidth, .experts = 8, .experts_per_token = 2};
    experts = register_module("experts", mn::MixtureOfExperts(comm, form));
  }
  /// Returns the scores, and the losses that keep the router's choices balanced and its logits small.
  std::pair<torch::Tensor, torch::Tensor> forward(const torch::Tensor& input) {
    const auto x = torch::relu(in(input));
    const auto mixed = experts(x);
    return {head(x + mixed.output), 0.01 * mixed.balance_loss + 0.001 * mixed.z_loss};
  }
  torch::nn::Linear in = register_module("in", torch::nn::Linear(8, kWidth));
  torch::nn::Linear head = register_module("head", torch::nn::Linear(kWidth, 4));
  mn::MixtureOfExperts experts{nullptr};
};

int main(int argc, char** argv) {
  return mn::run_job(argc, argv, [](mn::Job&) {
    auto comm = mn::create_communicator("auto");
    torch::manual_seed(1);
    const auto x = torch::randn({610, 8}), y = (x.slice(1, 0, 4) * x.slice(1, 4, 8)).argmax(1);
    mn::TensorLoader loader({x, y}, comm, {.batchsize = 60 / comm->size(), .shuffle = true});
    Net model(comm);
    model.to(comm->device());
    auto sgd = std::make_unique<torch::optim::SGD>(model.parameters(), 0.5);
    const auto optimizer = mn::create_multi_node_optimizer(std::move(sgd), comm);
    while (loader.epoch() < 10) {
      while (auto batch = loader.next()) {
        optimizer->zero_grad();
        const auto [scores, router_losses] = model.forward(batch->data);
        const auto loss = cross_entropy(scores, batch->target) + router_losses;
        optimizer->scale_loss(loss, batch->samples).backward();
        optimizer->step(batch->samples);
      }
    }
    const torch::NoGradGuard no_grad;
    const auto [scores, router_losses] = model.forward(x.to(comm->device()));  // collective
    const auto loss = cross_entropy(scores, y.to(comm->device()));
    if (comm->rank() == 0) std::cout << "loss " << loss.item<double>() << std::endl;
    return 0;
  });
}

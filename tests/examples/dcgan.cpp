// DCGAN (Radford et al., arXiv:1511.06434) learns to draw bright squares. Batch norms are over the minibatches of all
// ranks, so that the number of ranks changes nothing. Contrast: how much brighter the middle is than the upper edge.
#include <torch/torch.h>

#include <mn/mn.hpp>

namespace nn = torch::nn;
using Comm = std::shared_ptr<mn::Communicator>;

nn::Sequential make_generator(const Comm& comm) {  // from noise (N, 8, 1, 1) to images (N, 1, 16, 16)
  const auto up = [](int in, int out) {
    return nn::ConvTranspose2d(nn::ConvTranspose2dOptions(in, out, 4).stride(2).padding(1).bias(false));
  };
  return nn::Sequential(nn::ConvTranspose2d(nn::ConvTranspose2dOptions(8, 32, 4).bias(false)),
                        mn::MultiNodeBatchNorm(comm, 32), nn::ReLU(), up(32, 16), mn::MultiNodeBatchNorm(comm, 16),
                        nn::ReLU(), up(16, 1), nn::Tanh());
}
nn::Sequential make_discriminator(const Comm& comm) {  // from images to scores (N, 1)
  const auto down = [](int in, int out) { return nn::Conv2dOptions(in, out, 4).stride(2).padding(1).bias(false); };
  const nn::LeakyReLU leaky(nn::LeakyReLUOptions().negative_slope(0.2));
  return nn::Sequential(nn::Conv2d(down(1, 16)), leaky, nn::Conv2d(down(16, 32)), mn::MultiNodeBatchNorm(comm, 32),
                        leaky, nn::Flatten(), nn::Linear(512, 1));
}

int main(int argc, char** argv) {
  return mn::run_job(argc, argv, [](mn::Job&) {
    auto comm = mn::create_communicator("auto");
    torch::manual_seed(1);
    auto images = torch::full({240, 1, 16, 16}, -1.0);
    for (int i = 0; i < 240; ++i) images[i].slice(1, 3 + i % 3, 11 + i % 3).slice(2, 3 + i % 4, 11 + i % 4).fill_(1);
    mn::TensorDataset samples(images, torch::randn({240, 8, 1, 1}));  // with the noise for each step
    mn::TensorLoader loader(samples, comm, {.batchsize = 24 / comm->size()});
    auto generator = make_generator(comm), discriminator = make_discriminator(comm);
    const auto adam = [&](nn::Sequential& network) {
      network->to(comm->device());
      const auto settings = torch::optim::AdamOptions(0.002).betas({0.5, 0.999});
      return mn::create_multi_node_optimizer(std::make_unique<mn::FusedAdam>(network->parameters(), settings), comm);
    };
    const auto of_generator = adam(generator), of_discriminator = adam(discriminator);
    const auto loss_of = [&](const torch::Tensor& input, double target) {
      return torch::mse_loss(discriminator->forward(input), torch::full({input.size(0), 1}, target, input.options()));
    };
    while (loader.epoch() < 12) {
      while (auto batch = loader.next()) {
        const auto drawn = generator->forward(batch->target);
        of_discriminator->zero_grad();
        (loss_of(batch->data, 1) + loss_of(drawn.detach(), 0)).backward();
        of_discriminator->step(batch->samples);
        of_generator->zero_grad();
        const auto keep = of_discriminator->no_sync();  // the gradients that reach the discriminator here go nowhere
        loss_of(drawn, 1).backward();
        of_generator->step(batch->samples);
      }
    }
    const auto drawn = generator->forward(samples.fields()[1].to(comm->device()));
    const auto contrast = (drawn.slice(2, 6, 10).slice(3, 6, 10).mean() - drawn.slice(2, 0, 3).mean()).item<double>();
    if (comm->rank() == 0) std::cout << "contrast " << contrast << std::endl;
    return 0;
  });
}

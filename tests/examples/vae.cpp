// A variational autoencoder (Kingma and Welling 2013, arXiv:1312.6114): points on a circle in 8 dimensions, two latent
// numbers. The noise comes with the samples, so that the number of ranks changes nothing.
#include <torch/torch.h>

#include <mn/mn.hpp>

struct Autoencoder : torch::nn::Module {
  static constexpr std::int64_t kLatent = 2;
  torch::nn::Sequential encode = register_module(
      "encode", torch::nn::Sequential(torch::nn::Linear(8, 32), torch::nn::Tanh(), torch::nn::Linear(32, 2 * kLatent)));
  torch::nn::Sequential decode = register_module(
      "decode", torch::nn::Sequential(torch::nn::Linear(kLatent, 32), torch::nn::Tanh(), torch::nn::Linear(32, 8)));

  /// The negative evidence lower bound of a normal distribution with variance 0.01; a mean over samples.
  mn::Loss loss(const mn::Batch& batch, mn::Summary& report) {
    const auto parts = encode->forward(batch["x"]).chunk(2, 1);
    const auto &mean = parts[0], &log_variance = parts[1];
    const auto latent = mean + batch["noise"] * (log_variance / 2).exp();
    const auto error = (decode->forward(latent) - batch["x"]).square().sum(1).mean();
    const auto divergence = (mean.square() + log_variance.exp() - log_variance - 1).sum(1).mean() / 2;
    report.add("error", error, static_cast<double>(batch.samples));
    return error / 0.02 + divergence;
  }
};

int main(int argc, char** argv) {
  return mn::run_job(argc, argv, [](mn::Job&) {
    auto comm = mn::create_communicator("auto");
    torch::manual_seed(1);
    const auto angle = torch::rand({1200, 1}) * 2 * M_PI;
    const auto x = torch::cat({angle.cos(), angle.sin()}, 1).matmul(torch::randn({2, 8}));
    const mn::TensorDataset samples({x, torch::randn({1200, Autoencoder::kLatent})}, {"x", "noise"});

    auto model = std::make_shared<Autoencoder>();
    model->to(comm->device());
    std::shared_ptr<mn::MultiNodeOptimizer> optimizer =
        mn::create_multi_node_optimizer(std::make_unique<mn::FusedAdam>(model->parameters(), 0.005), comm);
    auto loader = std::make_shared<mn::TensorLoader>(
        samples, comm, mn::TensorLoaderOptions{.batchsize = 60 / comm->size(), .shuffle = true});
    mn::Trainer trainer(comm, optimizer, loader, model,
                        [&](const mn::Batch& batch, mn::Summary& report) { return model->loss(batch, report); },
                        {.epochs = 40, .out = "vae"});
    const auto& log = trainer.extend(std::make_unique<mn::extensions::LogReport>());
    if (const int status = trainer.run(); status != 0) return status;
    if (comm->rank() == 0) {
      std::cout << "loss " << log.last("main/loss") << "\nerror " << log.last("main/error") << std::endl;
    }
    return 0;
  });
}

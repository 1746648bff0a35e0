// Two networks with an optimizer each, in one trainer: a generator learns to draw what a discriminator takes
// for samples of a normal distribution around 4. The result is the average of the generator's weights alone.
#include <torch/torch.h>

#include <mn/mn.hpp>

torch::nn::Sequential make_network() {
  return torch::nn::Sequential(torch::nn::Linear(1, 16), torch::nn::Tanh(), torch::nn::Linear(16, 1));
}

int main(int argc, char** argv) {
  return mn::run_job(argc, argv, [](mn::Job&) {
    auto comm = mn::create_communicator("auto");
    torch::manual_seed(1);
    // The noise comes with the samples, so that the number of ranks changes nothing. They are drawn before an optimizer
    // lets the ranks' random numbers differ.
    mn::TensorDataset samples(torch::randn({1200, 1}) * 0.5 + 4, torch::randn({1200, 1}));
    auto generator = make_network();
    auto discriminator = make_network();
    const auto optimizer_of = [&](torch::nn::Sequential& network) {
      network->to(comm->device());
      const auto settings = torch::optim::AdamOptions(0.005).betas({0.5, 0.9});
      return mn::create_multi_node_optimizer(std::make_unique<mn::FusedAdam>(network->parameters(), settings), comm);
    };
    const std::shared_ptr<mn::MultiNodeOptimizer> of_generator = optimizer_of(generator);
    const std::shared_ptr<mn::MultiNodeOptimizer> of_discriminator = optimizer_of(discriminator);

    auto batches = std::make_shared<mn::TensorLoader>(
        samples, comm, mn::TensorLoaderOptions{.batchsize = 60 / comm->size(), .shuffle = true});
    const auto loss_of = [&](const torch::Tensor& input, double target) {
      const auto score = discriminator->forward(input);
      return torch::nn::functional::binary_cross_entropy_with_logits(score, torch::full_like(score, target));
    };
    const auto update = [&](const mn::Batch& batch, mn::Summary& report) {
      const auto drawn = generator->forward(batch.target);
      of_discriminator->zero_grad();
      const auto error = loss_of(batch.data, 1) + loss_of(drawn.detach(), 0);
      error.backward();
      of_discriminator->step(batch.samples);
      report.add("loss", error.item<double>(), static_cast<double>(batch.samples));

      of_generator->zero_grad();
      const auto keep = of_discriminator->no_sync();  // the gradients that reach the discriminator here go nowhere
      loss_of(drawn, 1).backward();
      of_generator->step(batch.samples);
    };
    auto both = std::make_shared<torch::nn::ModuleDict>();
    (*both)->update({{"generator", generator.ptr()}, {"discriminator", discriminator.ptr()}});
    mn::Trainer trainer(comm, {{"generator", of_generator}, {"discriminator", of_discriminator}}, batches, both->ptr(),
                        mn::UpdateParameters(update), {.epochs = 30});
    trainer.extend(std::make_unique<mn::extensions::LogReport>());
    auto& average = trainer.extend(std::make_unique<mn::extensions::WeightAverage>(0.98, generator.ptr()));
    if (const int status = trainer.run(); status != 0) return status;
    const torch::NoGradGuard no_grad;
    const mn::extensions::AveragedWeights averaged(average);  // the generator's, while this object lives
    const auto drawn = generator->forward(samples.fields()[1].to(comm->device()));
    if (comm->rank() == 0) std::cout << "mean " << drawn.mean().item<double>() << std::endl;
    return 0;
  });
}

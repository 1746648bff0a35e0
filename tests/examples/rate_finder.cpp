// A learning rate from a short search, in which the rate rises until the loss diverges; then the same model trains.
#include <fstream>

#include <torch/torch.h>

#include <mn/mn.hpp>

namespace ext = mn::extensions;

int main(int argc, char** argv) {
  return mn::run_job(argc, argv, [](mn::Job&) {
    auto comm = mn::create_communicator("auto");
    torch::manual_seed(1);
    const auto x = torch::randn({600, 4});
    const mn::TensorDataset samples(x, torch::sin(x.sum(1, true)));
    torch::nn::Sequential model(torch::nn::Linear(4, 32), torch::nn::Tanh(), torch::nn::Linear(32, 1));
    model->to(comm->device());
    std::shared_ptr<mn::MultiNodeOptimizer> optimizer = mn::create_multi_node_optimizer(
        std::make_unique<mn::FusedSgd>(model->parameters(), torch::optim::SGDOptions(0.1).momentum(0.9)), comm);
    auto loader = std::make_shared<mn::TensorLoader>(
        samples, comm, mn::TensorLoaderOptions{.batchsize = 60 / comm->size(), .shuffle = true});
    const auto loss = [&](const mn::Batch& batch, mn::Summary&) {
      return torch::mse_loss(model->forward(batch.data), batch.target);
    };

    double rate = 0;
    {  // afterwards, parameters, optimizer and order of samples are as before
      mn::Trainer search(comm, optimizer, loader, model.ptr(), loss, {.iterations = 100, .out = "result/find-lr"});
      const auto& each = search.extend(std::make_unique<ext::LogReport>(), {.trigger = mn::Interval(1, "iteration")});
      const auto& finder =
          search.extend(std::make_unique<ext::RateFinder>(each, ext::RateFinderOptions{.first = 1e-5}));
      if (const int status = search.run(); status != 0) return status;
      rate = finder.proposal().value_or(0.01);
      if (search.is_root()) std::ofstream("result/find-lr/report.html") << mn::make_report({search.out()});
    }

    mn::Trainer trainer(comm, optimizer, loader, model.ptr(), loss, {.epochs = 20, .out = "result"});
    const std::int64_t iterations = 20 * trainer.iterations_per_epoch();
    trainer.extend(std::make_unique<ext::LearningRate>(mn::one_cycle_schedule(rate, iterations)));
    const auto& log = trainer.extend(std::make_unique<ext::LogReport>());
    if (const int status = trainer.run(); status != 0) return status;
    if (comm->rank() == 0) std::cout << "rate " << rate << "\nloss " << log.last("main/loss") << std::endl;
    return 0;
  });
}

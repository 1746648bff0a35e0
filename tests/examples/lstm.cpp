// An LSTM over endless sequences: each rank carries its hidden state from minibatch to minibatch, and over a resume on
// any number of ranks that divides the sequences. The argument is the number of iterations.
#include <torch/torch.h>

#include <mn/mn.hpp>

namespace ext = mn::extensions;

struct Forecast : torch::nn::Module {
  torch::nn::LSTM lstm = register_module("lstm", torch::nn::LSTM(1, 16));
  torch::nn::Linear head = register_module("head", torch::nn::Linear(16, 1));
};

int main(int argc, char** argv) {
  return mn::run_job(argc, argv, [&](mn::Job&) {
    auto comm = mn::create_communicator("auto");
    constexpr std::int64_t kSequences = 12, kSteps = 20, kLength = 25;  // a minibatch has 25 values of each sequence
    const std::int64_t own = kSequences / comm->size();
    torch::manual_seed(1);
    const auto time = torch::arange(kSteps * kLength + 1).unsqueeze(1), number = torch::arange(kSequences);
    const auto values = (torch::sin(time * 0.2 + number) * torch::sin(time * 0.03 + 2 * number))
                            .narrow(1, comm->rank() * own, own)
                            .unsqueeze(2)
                            .to(comm->device());  // [time, own, 1]
    auto batches = mn::create_iterator(kSteps, [&](std::int64_t, std::int64_t step) {
      const auto from = [&](std::int64_t first) { return values.narrow(0, step * kLength + first, kLength); };
      return mn::Batch{from(0), from(1), own};  // the target is the next value
    });
    auto model = std::make_shared<Forecast>();
    model->to(comm->device());
    std::shared_ptr<mn::MultiNodeOptimizer> optimizer =
        mn::create_multi_node_optimizer(std::make_unique<mn::FusedAdam>(model->parameters(), 0.01), comm);

    auto hidden = torch::zeros({1, own, 16}, values.options()), cell = hidden.clone();  // differ by rank
    const auto loss_of = [&](const mn::Batch& batch, mn::Summary&) {
      const auto [output, next] = model->lstm(batch.data, std::tuple(hidden, cell));
      hidden = std::get<0>(next).detach();  // backward ends at the begin of a minibatch
      cell = std::get<1>(next).detach();
      return torch::mse_loss(model->head(output), batch.target);
    };
    const std::int64_t iterations = argc > 1 ? std::stoll(argv[1]) : 200;
    mn::Trainer trainer(comm, optimizer, batches, model, loss_of, {.iterations = iterations, .out = "lstm"});
    const auto& log = trainer.extend(std::make_unique<ext::LogReport>());
    // Without divide_along(), the sequences' dimension, a resume on another number of ranks is an error.
    trainer.extend(std::make_unique<ext::RankState>(
        "lstm", ext::RankState::Tensors{{"hidden", &hidden}, {"cell", &cell}}, ext::RankState::divide_along(1)));
    trainer.extend(std::make_unique<ext::Snapshot>());
    trainer.resume("auto");
    const int status = trainer.run();
    if (comm->rank() == 0) std::cout << "loss " << log.last("main/loss") << std::endl;
    return status;
  });
}

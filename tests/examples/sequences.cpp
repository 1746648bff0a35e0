// Sequences of different lengths: padded, and weighted by their tokens. Each token's target is the parity of the ones
// so far; padding has none.
#include <torch/torch.h>

#include <mn/mn.hpp>

namespace F = torch::nn::functional;
namespace ext = mn::extensions;

struct Tagger : torch::nn::Module {
  torch::nn::Embedding embed = register_module("embed", torch::nn::Embedding(3, 8));
  torch::nn::GRU gru = register_module("gru", torch::nn::GRU(torch::nn::GRUOptions(8, 24).batch_first(true)));
  torch::nn::Linear head = register_module("head", torch::nn::Linear(24, 2));
  torch::Tensor forward(const torch::Tensor& tokens) { return head(std::get<0>(gru(embed(tokens)))); }
};

int main(int argc, char** argv) {
  return mn::run_job(argc, argv, [](mn::Job&) {
    auto comm = mn::create_communicator("auto");
    constexpr std::int64_t kLongest = 12, kPadding = 2, kNone = -100;
    torch::manual_seed(1);
    const auto lengths = torch::randint(1, kLongest + 1, {1000, 1});
    const auto is_padding = torch::arange(kLongest).unsqueeze(0).ge(lengths);
    const auto bits = torch::randint(0, 2, {1000, kLongest});
    const auto tokens = bits.masked_fill(is_padding, kPadding);
    const auto targets = bits.cumsum(1).remainder(2).masked_fill(is_padding, kNone);
    const auto samples = [&](std::int64_t first, std::int64_t last, bool shuffle) {  // 60 of all ranks in a step
      return std::make_shared<mn::TensorLoader>(
          mn::TensorDataset(tokens.slice(0, first, last), targets.slice(0, first, last)), comm,
          mn::TensorLoaderOptions{.batchsize = 60 / comm->size(), .shuffle = shuffle});
    };
    auto model = std::make_shared<Tagger>();
    model->to(comm->device());
    std::shared_ptr<mn::MultiNodeOptimizer> optimizer =
        mn::create_multi_node_optimizer(std::make_unique<mn::FusedAdam>(model->parameters(), 0.01), comm);
    // A mean over tokens: ranks, minibatches and reports weigh by them.
    const auto loss_of = [&](const mn::Batch& batch, mn::Summary& report) {
      const auto scores = model->forward(batch.data).flatten(0, 1), target = batch.target.flatten();
      const double count = target.ne(kNone).sum().item<double>();
      report.add("accuracy", scores.argmax(1).eq(target).sum().item<double>() / count, count);
      return mn::Loss(F::cross_entropy(scores, target), count);  // which ignores -100
    };
    mn::Trainer trainer(comm, optimizer, samples(0, 900, true), model, loss_of, {.epochs = 4, .out = "sequences"});
    const auto evaluate = [&](const mn::Batch& batch, mn::Summary& report) {
      const mn::Loss loss = loss_of(batch, report);
      report.add("loss", loss.value.item<double>(), loss.weight_in(batch));
    };
    trainer.extend(std::make_unique<ext::Validation>(
        mn::create_multi_node_evaluator(mn::create_evaluator(samples(900, 1000, false), model, evaluate), comm)));
    const auto& log = trainer.extend(std::make_unique<ext::LogReport>());
    const int status = trainer.run();
    if (comm->rank() == 0) {
      std::cout << "loss " << log.last("validation/main/loss") << "\naccuracy " << log.last("validation/main/accuracy")
                << std::endl;
    }
    return status;
  });
}

// A language model of characters: next-character targets, accumulated minibatches, averaged weights, text at the end.
#include <torch/torch.h>

#include <mn/mn.hpp>

namespace F = torch::nn::functional;

struct LanguageModel : torch::nn::Module {
  torch::nn::Embedding embed = register_module("embed", torch::nn::Embedding(128, 24));
  torch::nn::GRU gru = register_module("gru", torch::nn::GRU(torch::nn::GRUOptions(24, 48).batch_first(true)));
  torch::nn::Linear head = register_module("head", torch::nn::Linear(48, 128));
  torch::Tensor forward(const torch::Tensor& text) { return head(std::get<0>(gru(embed(text)))); }
};

int main(int argc, char** argv) {
  return mn::run_job(argc, argv, [](mn::Job&) {
    auto comm = mn::create_communicator("auto");
    torch::manual_seed(1);
    auto model = std::make_shared<LanguageModel>();
    model->to(comm->device());

    std::string text;
    for (int i = 0; i < 40; ++i) text += "she sells sea shells on the sea shore; ";
    const auto letters = torch::tensor(std::vector<std::int64_t>(text.begin(), text.end()));
    const auto windows = letters.unfold(0, 25, 3).contiguous();  // 24 letters, and each one's next
    mn::TensorDataset samples(windows.slice(1, 0, 24), windows.slice(1, 1, 25));

    std::shared_ptr<mn::MultiNodeOptimizer> optimizer =
        mn::create_multi_node_optimizer(std::make_unique<mn::FusedAdamW>(model->parameters(), 0.01), comm);
    optimizer->add_hook("clip", mn::gradient_clipping(1));
    const auto loss_of = [&](const mn::Batch& batch, mn::Summary&) {
      return F::cross_entropy(model->forward(batch.data).flatten(0, 1), batch.target.flatten());
    };
    // Two minibatches of 30 samples over all ranks are one update.
    auto loader = std::make_shared<mn::TensorLoader>(
        samples, comm, mn::TensorLoaderOptions{.batchsize = 30 / comm->size(), .shuffle = true});
    mn::Trainer trainer(comm, optimizer, loader, model, loss_of,
                        {.epochs = 25, .accumulate = 2, .out = "language_model"});
    auto& average = trainer.extend(std::make_unique<mn::extensions::WeightAverage>(0.9));
    const auto& log = trainer.extend(std::make_unique<mn::extensions::LogReport>());
    const int status = trainer.run();
    if (status != 0 || comm->rank() != 0) return status;

    const mn::extensions::AveragedWeights averaged(average);
    const torch::NoGradGuard no_grad;
    std::string written = "she sells ";
    while (written.size() < 40) {
      const auto so_far = torch::tensor(std::vector<std::int64_t>(written.begin(), written.end()), comm->device());
      written += static_cast<char>(model->forward(so_far.unsqueeze(0))[0][-1].argmax().item<std::int64_t>());
    }
    std::cout << "loss " << log.last("main/loss") << "\ntext " << written << std::endl;
    return 0;
  });
}

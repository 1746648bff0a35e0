// Word vectors (word2vec, Mikolov et al. 2013): a step touches few rows of two tables, whose gradients are sparse.
#include <torch/torch.h>

#include <mn/mn.hpp>

namespace F = torch::nn::functional;

constexpr std::int64_t kTopics = 20, kWordsOfTopic = 20, kWords = kTopics * kWordsOfTopic, kPairs = 8000;

struct WordVectors : torch::nn::Module {
  WordVectors() {
    const auto options = torch::nn::EmbeddingOptions(kWords, 16).sparse(true);
    word = register_module("word", torch::nn::Embedding(options));
    context = register_module("context", torch::nn::Embedding(options));
  }
  torch::nn::Embedding word{nullptr}, context{nullptr};
};

int main(int argc, char** argv) {
  return mn::run_job(argc, argv, [](mn::Job&) {
    auto comm = mn::create_communicator("auto");
    torch::manual_seed(1);
    // Words stand near words of their topic; five others are drawn for each pair that is not to be found in the text.
    const auto word = torch::randint(kWords, {kPairs}, at::kLong);
    const auto near = word - word.remainder(kWordsOfTopic) + torch::randint(kWordsOfTopic, {kPairs}, at::kLong);
    const mn::TensorDataset pairs({word, near, torch::randint(kWords, {kPairs, 5}, at::kLong)},
                                  {"word", "near", "far"});
    auto loader = std::make_shared<mn::TensorLoader>(
        pairs, comm, mn::TensorLoaderOptions{.batchsize = 120 / comm->size(), .shuffle = true});

    auto model = std::make_shared<WordVectors>();
    model->to(comm->device());
    // SGD and Adagrad take sparse gradients, Adam does not.
    std::shared_ptr<mn::MultiNodeOptimizer> optimizer = mn::create_multi_node_optimizer(
        std::make_unique<torch::optim::Adagrad>(model->parameters(), torch::optim::AdagradOptions(0.3)), comm);
    const auto loss_of = [&](const mn::Batch& batch, mn::Summary&) {
      const auto words = model->word(batch["word"]).unsqueeze(2);                        // [B, 16, 1]
      const auto near_score = model->context(batch["near"].unsqueeze(1)).matmul(words);  // [B, 1, 1]
      const auto far_score = model->context(batch["far"]).matmul(words);                 // [B, 5, 1]
      return (F::softplus(-near_score).sum({1, 2}) + F::softplus(far_score).sum({1, 2})).mean();
    };
    mn::Trainer trainer(comm, optimizer, loader, model, loss_of, {.epochs = 5, .out = "word_vectors"});
    const auto& log = trainer.extend(std::make_unique<mn::extensions::LogReport>());
    const int status = trainer.run();

    const torch::NoGradGuard no_grad;
    const auto& weight = model->word->weight;
    const auto vectors = weight / weight.norm(2, {1}, /*keepdim=*/true);
    const auto nearest = (vectors.matmul(vectors.t()) - 2 * torch::eye(kWords, vectors.options())).argmax(1);
    const auto topics = torch::arange(kWords, nearest.options()).floor_divide(kWordsOfTopic);
    const double accuracy = nearest.floor_divide(kWordsOfTopic).eq(topics).to(at::kFloat).mean().item<double>();
    if (comm->rank() == 0) {
      std::cout << "loss " << log.last("main/loss") << "\naccuracy " << accuracy << std::endl;
    }
    return status;
  });
}

// Step 3: a model on several ranks. MNIST's layers lie on up to three ranks; rank 0 has the first and the last layer.
#include <torch/torch.h>

#include <mn/mn.hpp>

using torch::nn::functional::cross_entropy;
using Ranks = mn::MultiNodeChainList::Ranks;

int main(int argc, char** argv) {
  return mn::run_job(argc, argv, [](mn::Job&) {
    auto comm = mn::create_communicator("auto");
    if (comm->size() > 3) throw mn::UsageError("give 1, 2 or 3 ranks");
    const std::vector<int> rank_of = {0, 1 % comm->size(), 2 % comm->size(), 0};  // the rank of each layer

    torch::manual_seed(1);  // every rank makes all layers, and keeps its own
    mn::MultiNodeChainList model(comm);
    for (std::size_t i = 0; i < 4; ++i) {
      torch::nn::Sequential layer(torch::nn::Flatten(), torch::nn::Linear(i == 0 ? 784 : 100, i == 3 ? 10 : 100));
      if (i < 3) layer->push_back(torch::nn::ReLU());
      if (rank_of[i] != comm->rank()) continue;
      model.add_link(layer, i == 0 ? Ranks() : rank_of[i - 1], i == 3 ? Ranks() : rank_of[i + 1]);
    }
    model.to(comm->device());
    torch::optim::Adam optimizer(model.parameters());  // of this rank's layers, which no other rank has

    // Rank 0 reads the images. The multi-node iterator gives all ranks the same minibatches.
    const auto images = [&](const std::string& name, bool shuffle) {
      const auto alone = comm->split(comm->rank(), 0);
      auto part = mn::scatter_dataset(mn::open_dataset("mnist/" + name), alone, {.shuffle = shuffle, .seed = 1});
      const mn::LoaderOptions loading{.batchsize = 100, .device = comm->device()};
      return mn::create_multi_node_iterator(std::make_shared<mn::DataLoader>(part, loading), comm);
    };
    double loss_sum = 0, right = 0;
    const auto train = images("train", true);
    while (auto batch = train->next()) {
      optimizer.zero_grad();
      auto y = model.forward(batch->data);  // a delegate on all ranks but rank 0
      auto loss = comm->rank() == 0 ? cross_entropy(y, batch->target) : y;
      loss.backward();
      optimizer.step();
      loss_sum += loss.item<double>() * static_cast<double>(batch->samples);
    }
    const torch::NoGradGuard no_grad;
    const auto val = images("val", false);
    while (auto batch = val->next()) {
      auto y = model.forward(batch->data);
      if (comm->rank() == 0) right += y.argmax(1).eq(batch->target).sum().item<double>();
    }
    if (comm->rank() == 0) {
      std::cout << "loss " << loss_sum / 60000 << "\naccuracy " << right / 10000 << std::endl;
    }
    return 0;
  });
}

// Contrastive learning (SimCLR): each sample is to be told from the samples of all ranks by a second view of it.
#include <torch/torch.h>

#include <mn/mn.hpp>

namespace F = torch::nn::functional;

int main(int argc, char** argv) {
  return mn::run_job(argc, argv, [](mn::Job&) {
    auto comm = mn::create_communicator("auto");
    torch::manual_seed(1);
    const auto content = torch::randn({250, 4}), mix = torch::randn({8, 16});
    const auto view = [&] { return torch::cat({content, torch::randn({250, 4})}, 1).matmul(mix); };  // half is noise
    const mn::TensorDataset samples({view(), view()}, {"one", "other"});
    auto loader = std::make_shared<mn::TensorLoader>(
        samples, comm, mn::TensorLoaderOptions{.batchsize = 60 / comm->size(), .shuffle = true});

    torch::nn::Sequential model(torch::nn::Linear(16, 32), torch::nn::ReLU(), torch::nn::Linear(32, 8));
    model->to(comm->device());
    std::shared_ptr<mn::MultiNodeOptimizer> optimizer =
        mn::create_multi_node_optimizer(std::make_unique<mn::FusedAdam>(model->parameters(), 0.01), comm);
    const auto embed = [&](const torch::Tensor& x) { return F::normalize(model->forward(x)); };
    const auto loss_of = [&](const mn::Batch& batch, mn::Summary& report) {
      const auto one = embed(batch["one"]), other = embed(batch["other"]);
      // Rows of all ranks, with the rank that each is of: gradients find their way back.
      const auto owner =
          mn::all_gather(comm, torch::full({batch.samples}, comm->rank(), one.options().dtype(at::kInt)));
      const auto own = owner.eq(comm->rank()).nonzero().squeeze(1);  // where this rank's rows are
      const auto scores = one.matmul(mn::all_gather(comm, other).t()) / 0.2;
      const auto back = other.matmul(mn::all_gather(comm, one).t()) / 0.2;
      report.add("accuracy", scores.argmax(1).eq(own).to(at::kFloat).mean().item<double>(), batch.samples);
      return (F::cross_entropy(scores, own) + F::cross_entropy(back, own)) / 2;
    };
    mn::Trainer trainer(comm, optimizer, loader, model.ptr(), loss_of, {.epochs = 40, .out = "contrastive"});
    const auto& log = trainer.extend(std::make_unique<mn::extensions::LogReport>());
    const int status = trainer.run();
    if (comm->rank() == 0) {
      std::cout << "loss " << log.last("main/loss") << "\naccuracy " << log.last("main/accuracy") << std::endl;
    }
    return status;
  });
}

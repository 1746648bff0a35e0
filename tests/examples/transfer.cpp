// Transfer learning: a network for three classes gives its weights, but for its head, to one for five, whose trunk is
// then frozen.
#include <torch/torch.h>

#include <mn/mn.hpp>

namespace F = torch::nn::functional;

struct Classifier : torch::nn::Module {
  torch::nn::Sequential trunk = register_module(
      "trunk", torch::nn::Sequential(torch::nn::Linear(2, 32), torch::nn::BatchNorm1d(32), torch::nn::ReLU()));
  torch::nn::Linear head{nullptr};
  explicit Classifier(int classes) { head = register_module("head", torch::nn::Linear(32, classes)); }
  torch::Tensor forward(const torch::Tensor& x) { return head(trunk->forward(x)); }
};

/// Trains on points in so many sectors of the plane; returns the accuracy.
double train(const std::shared_ptr<Classifier>& model, int classes, const std::shared_ptr<mn::Communicator>& comm) {
  torch::manual_seed(2);
  const auto x = torch::randn({600, 2});
  const auto angle = torch::atan2(x.select(1, 0), x.select(1, 1)) / (2 * M_PI) + 0.5;
  mn::TensorDataset samples(x, (angle * classes).floor().clamp(0, classes - 1).to(torch::kLong));
  auto loader = std::make_shared<mn::TensorLoader>(
      samples, comm, mn::TensorLoaderOptions{.batchsize = 60 / comm->size(), .shuffle = true});

  model->to(comm->device());
  std::shared_ptr<mn::MultiNodeOptimizer> optimizer =
      mn::create_multi_node_optimizer(std::make_unique<mn::FusedAdam>(model->parameters(), 0.02), comm);
  mn::Trainer trainer(comm, optimizer, loader, model,
                      [&](const mn::Batch& batch, mn::Summary& report) {
                        const auto scores = model->forward(batch.data);
                        const auto right = (scores.argmax(1) == batch.target).to(torch::kFloat).mean();
                        report.add("accuracy", right.item<double>(), static_cast<double>(batch.samples));
                        return F::cross_entropy(scores, batch.target);
                      },
                      {.epochs = 20, .out = "transfer"});
  const auto& log = trainer.extend(std::make_unique<mn::extensions::LogReport>());
  if (trainer.run() != 0) throw mn::Error("training was interrupted");
  return log.last("main/accuracy");
}

int main(int argc, char** argv) {
  return mn::run_job(argc, argv, [](mn::Job&) {
    auto comm = mn::create_communicator("auto");
    torch::manual_seed(1);
    auto first = std::make_shared<Classifier>(3);
    first->trunk[1]->as<torch::nn::BatchNorm1d>()->eval();  // its statistics would be of each rank's own samples
    const double before = train(first, 3, comm);
    mn::save_model("transfer/first.safetensors", *first, *comm);

    auto second = std::make_shared<Classifier>(5);
    const mn::LoadReport report = mn::load_matching("transfer/first.safetensors", *second, *comm);  // all but the head
    if (comm->rank() == 0) std::cout << to_string(report) << std::endl;
    for (auto& parameter : second->trunk->parameters()) parameter.requires_grad_(false);
    second->trunk->eval();  // stays so while the rest trains
    const double after = train(second, 5, comm);
    if (comm->rank() == 0) std::cout << "accuracy " << before << "\naccuracy " << after << std::endl;
    return 0;
  });
}

// Fine-tuning: a network for three classes gives its trunk to one for five. First the new head trains alone; then the
// trunk joins, with a warm-up and at a lower rate.
#include <torch/torch.h>

#include <mn/mn.hpp>

namespace ext = mn::extensions;

struct Classifier : torch::nn::Module {
  torch::nn::Linear trunk = register_module("trunk", torch::nn::Linear(2, 32)), head{nullptr};
  explicit Classifier(int classes) { head = register_module("head", torch::nn::Linear(32, classes)); }
  torch::Tensor forward(const torch::Tensor& x) { return head(trunk(x).relu()); }
};

/// Trains on points in so many sectors of the plane, the trunk from epoch `start` on; returns the accuracy.
double train(const std::shared_ptr<Classifier>& model, int classes, int start, std::shared_ptr<mn::Communicator> comm) {
  torch::manual_seed(2);
  const auto x = torch::randn({600, 2}), angle = torch::atan2(x.select(1, 0), x.select(1, 1)) / (2 * M_PI) + 0.5;
  const mn::TensorDataset samples(x, (angle * classes).floor().clamp(0, classes - 1).to(torch::kLong));
  const mn::TensorLoaderOptions how{.batchsize = 60 / comm->size(), .shuffle = true};
  auto loader = std::make_shared<mn::TensorLoader>(samples, comm, how);
  model->to(comm->device());
  const ext::Freezing freezing({{.pattern = "trunk", .until = start}});
  freezing.apply(*model, 0);  // before the optimizer is made
  const auto settings = torch::optim::AdamWOptions(0.02).weight_decay(0.01);
  auto [groups, names] = mn::parameter_groups(*model, settings, {{.pattern = "trunk"}});  // no decay of biases
  std::shared_ptr<mn::MultiNodeOptimizer> optimizer =
      mn::create_multi_node_optimizer(mn::make_optimizer<mn::FusedAdamW>(std::move(groups), settings), comm);
  optimizer->name_groups(names);
  const auto loss = [&](const mn::Batch& batch, mn::Summary& report) {
    const auto scores = model->forward(batch.data);
    report.add("accuracy", scores.argmax(1).eq(batch.target).to(torch::kFloat).mean().item<double>(), batch.samples);
    return torch::nn::functional::cross_entropy(scores, batch.target);
  };
  mn::Trainer trainer(comm, optimizer, loader, model, loss, {.epochs = 20, .out = "of_" + std::to_string(classes)});
  trainer.extend(std::make_unique<ext::Freezing>(freezing));
  const auto epoch = trainer.iterations_per_epoch();
  const auto head = mn::cosine_schedule(0.02, 20 * epoch);
  const auto trunk = mn::starting_at(start * epoch, mn::warm_up(0, epoch, mn::constant_schedule(0.005)));
  trainer.extend(std::make_unique<ext::LearningRate>(std::vector{head, head, trunk, trunk}));  // weights, biases, …
  const auto& log = trainer.extend(std::make_unique<ext::LogReport>());
  trainer.extend(std::make_unique<ext::Snapshot>());
  trainer.resume("auto");
  if (trainer.run() != 0) throw mn::Error("training was interrupted");
  return log.last("main/accuracy");
}

int main(int argc, char** argv) {
  return mn::run_job(argc, argv, [](mn::Job&) {
    auto comm = mn::create_communicator("auto");
    torch::manual_seed(1);
    auto first = std::make_shared<Classifier>(3), second = std::make_shared<Classifier>(5);
    const double before = train(first, 3, 0, comm);
    mn::save_model("of_3/model.safetensors", *first, *comm);
    mn::load_model("of_3/model.safetensors", *second, *comm, {"head"});
    const double after = train(second, 5, 5, comm);
    if (comm->rank() == 0) std::cout << "accuracy " << before << "\naccuracy " << after << std::endl;
    return 0;
  });
}

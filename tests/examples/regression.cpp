// Regression on tensors in memory. Samples have three fields: inputs, targets, and how much each counts.
#include <torch/torch.h>

#include <mn/mn.hpp>

namespace ext = mn::extensions;

int main(int argc, char** argv) {
  return mn::run_job(argc, argv, [](mn::Job&) {
    auto comm = mn::create_communicator("auto");
    torch::manual_seed(1);
    const auto x = torch::rand({1200, 3}) * 2 - 1;
    const auto y = torch::sin(3 * x).sum(1, true);
    const auto weight = torch::rand({1200, 1}) + 0.5;
    torch::nn::Sequential model(torch::nn::Linear(3, 32), torch::nn::Tanh(), torch::nn::Linear(32, 1));
    model->to(comm->device());

    // 60 samples in a step, on any number of ranks.
    const auto samples = [&](std::int64_t first, std::int64_t last, bool shuffle) {
      const auto part = [&](const torch::Tensor& field) { return field.slice(0, first, last); };
      return std::make_shared<mn::TensorLoader>(
          mn::TensorDataset({part(x), part(y), part(weight)}, {"x", "y", "weight"}), comm,
          mn::TensorLoaderOptions{.batchsize = 60 / comm->size(), .shuffle = shuffle, .seed = 2});
    };
    const auto loss_of = [&](const mn::Batch& batch, mn::Summary& report) {
      const auto difference = model->forward(batch.data) - batch.target;
      report.add("error", difference.abs().mean(), static_cast<double>(batch.samples));
      return (batch["weight"] * difference.square()).mean();
    };
    std::shared_ptr<mn::MultiNodeOptimizer> optimizer =
        mn::create_multi_node_optimizer(std::make_unique<mn::FusedAdam>(model->parameters(), 0.02), comm);
    optimizer->add_hook("clip", mn::gradient_clipping(1));

    auto evaluator = mn::create_multi_node_evaluator(
        mn::create_evaluator(samples(1000, 1200, false), model.ptr(),
                             [&](const mn::Batch& batch, mn::Summary& report) {
                               report.add("loss", loss_of(batch, report), static_cast<double>(batch.samples));
                             }),
        comm);
    mn::Trainer trainer(comm, optimizer, samples(0, 1000, true), model.ptr(), loss_of,
                        {.epochs = 20, .out = "regression"});
    trainer.extend(std::make_unique<ext::Validation>(std::move(evaluator)));
    const auto& log = mn::app::record_run(trainer, {.metric = "error", .settings = {{"lr", "0.02"}, {"units", "32"}}});
    const ext::Monitor monitor(log, "validation/main/loss", ext::Better::kLower);
    trainer.extend(std::make_unique<ext::BestSnapshot>(monitor));
    trainer.extend(std::make_unique<ext::EarlyStopping>(monitor, 5));
    trainer.extend(
        std::make_unique<ext::LearningRate>(mn::cosine_schedule(0.02, 20 * trainer.iterations_per_epoch(), 0.001)));
    const int status = trainer.run();
    if (comm->rank() == 0) std::cout << "loss " << log.last("validation/main/loss") << std::endl;
    return status;
  });
}

// Checkpoints and resume with a Trainer, and an option of its own: after `resume --epoch 4`, `resume` on any number of
// ranks comes to the result of an uninterrupted `resume`.
#include <torch/torch.h>

#include <mn/mn.hpp>

namespace ext = mn::extensions;

int main(int argc, char** argv) {
  std::int64_t epochs = 12;
  mn::Options options("usage: resume [options]\nFits a curve, and goes on where an earlier run has stopped.");
  options.add("epoch", epochs, "passes over the training data", 1);
  return mn::run_job(argc, argv, [&](mn::Job& job) {
    if (!mn::app::parse_options(options, argc, argv, job.rank())) return 0;  // --help or --version
    auto comm = mn::create_communicator("auto");
    torch::manual_seed(1);
    const auto x = torch::rand({1000, 3}) * 2 - 1;
    auto loader = std::make_shared<mn::TensorLoader>(
        mn::TensorDataset(x, torch::sin(3 * x).sum(1, true)), comm,
        mn::TensorLoaderOptions{.batchsize = 60 / comm->size(), .shuffle = true, .seed = 2});

    torch::nn::Sequential model(torch::nn::Linear(3, 32), torch::nn::Tanh(), torch::nn::Linear(32, 1));
    model->to(comm->device());
    std::shared_ptr<mn::MultiNodeOptimizer> optimizer =
        mn::create_multi_node_optimizer(std::make_unique<mn::FusedAdam>(model->parameters(), 0.02), comm);
    mn::Trainer trainer(
        comm, optimizer, loader, model.ptr(),
        [&](const mn::Batch& batch, mn::Summary&) { return torch::mse_loss(model->forward(batch.data), batch.target); },
        // At SIGTERM, or before Slurm's time limit, run() writes a checkpoint and returns 75 (mn::kExitRequeue).
        {.epochs = epochs, .out = "resume", .checkpoint_on_signal = true});
    const auto& log = trainer.extend(std::make_unique<ext::LogReport>());
    trainer.extend(
        std::make_unique<ext::LearningRate>(mn::cosine_schedule(0.02, 12 * trainer.iterations_per_epoch(), 0.001)));
    trainer.extend(std::make_unique<ext::RunRecord>(log));  // run.jsonl: hosts, times and warnings, for mnreport
    trainer.extend(std::make_unique<ext::Snapshot>(2));     // each epoch and at the end; the newest two stay

    trainer.resume("auto");  // after the last extend(); false: there is no checkpoint, and training starts
    const int status = trainer.run();
    if (status == 0 && comm->rank() == 0) std::cout << "loss " << log.last("main/loss") << std::endl;
    return status;
  });
}

// Step 2: datasets and the evaluator. MNIST is divided between the ranks, and so is its validation.
#include <torch/torch.h>

#include <mn/mn.hpp>

using torch::nn::functional::cross_entropy;

int main(int argc, char** argv) {
  return mn::run_job(argc, argv, [](mn::Job&) {  // as mn::Job, and an exception becomes one line and an exit status
    auto comm = mn::create_communicator("auto");

    // Shards lie on shared storage: rank 0 reads which there are, and each rank later reads the samples that it uses.
    auto train = mn::scatter_dataset(mn::open_dataset("mnist/train"), comm, {.shuffle = true, .seed = 1});
    auto val = mn::scatter_dataset(mn::open_dataset("mnist/val"), comm);

    torch::nn::Sequential model(torch::nn::Flatten(), torch::nn::Linear(784, 100), torch::nn::ReLU(),
                                torch::nn::Linear(100, 10));
    model->to(comm->device());
    std::shared_ptr<mn::MultiNodeOptimizer> optimizer =
        mn::create_multi_node_optimizer(std::make_unique<torch::optim::Adam>(model->parameters()), comm);

    // Each rank evaluates its own part; the multi-node evaluator returns the mean over all samples, on every rank.
    const mn::LoaderOptions loading{.batchsize = 100, .device = comm->device()};
    auto evaluator = mn::create_multi_node_evaluator(
        mn::create_evaluator(std::make_shared<mn::DataLoader>(val, loading), model.ptr(),
                             [&](const mn::Batch& batch, mn::Summary& report) {
                               auto right = model->forward(batch.data).argmax(1) == batch.target;
                               report.add("accuracy", right.sum().item<double>() / batch.samples, batch.samples);
                             }),
        comm);

    // The Trainer passes each rank's number of samples to the optimizer, so a short last batch counts for what it is.
    mn::Trainer trainer(
        comm, optimizer, std::make_shared<mn::DataLoader>(train, loading), model.ptr(),
        [&](const mn::Batch& batch, mn::Summary&) { return cross_entropy(model->forward(batch.data), batch.target); },
        {.epochs = 2, .out = "tutorial"});
    trainer.extend(std::make_unique<mn::extensions::Validation>(std::move(evaluator)));
    const auto& log = trainer.extend(std::make_unique<mn::extensions::LogReport>());
    trainer.extend(std::make_unique<mn::extensions::PrintReport>(
        log, std::vector<std::string>{"epoch", "main/loss", "validation/main/accuracy"}));
    return trainer.run();
  });
}

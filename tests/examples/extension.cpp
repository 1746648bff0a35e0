// An extension from nothing: a confusion matrix over the samples of all ranks. Usage: extension [EPOCHS]
#include <nlohmann/json.hpp>
#include <torch/torch.h>

#include <mn/mn.hpp>

/// Counts (class, answer) of all epochs, and reports the recall of the worst class.
struct Confusion final : mn::Extension {
  void add(const torch::Tensor& answer, const torch::Tensor& target) {
    own.index_put_({target, answer}, torch::ones_like(target), /*accumulate=*/true);  // this rank's samples alone
  }
  std::string name() const override { return "Confusion"; }  // key of its state in a checkpoint
  mn::Interval trigger() const override { return {1, mn::IntervalUnit::kEpoch}; }
  int priority() const override { return mn::kPriorityWriter; }  // reports a value: the log, a reader, runs later
  void initialize(mn::Trainer& trainer) override {               // once, after resume() and before the first iteration
    if (trainer.is_root()) mn::log_info("samples counted so far: " + std::to_string(all.sum().item<std::int64_t>()));
  }
  void run(mn::Trainer& trainer) override {  // on all ranks in the same iteration, so collective calls are allowed
    trainer.communicator().allreduce(own);
    all += own;  // equal on all ranks
    own.zero_();
    recall = (all.diag().to(at::kDouble) / all.sum(1).clamp_min(1)).min().item<double>();
    trainer.report("worst_recall", recall);  // every rank reports the same value
  }
  // For checkpoints, which hold only rank 0's state. Snapshot runs last: by then own is 0 on every rank.
  nlohmann::json state() const override { return recall; }
  void load_state(const nlohmann::json& state) override { recall = state.get<double>(); }
  mn::NamedTensors tensors() const override { return {{"counts", all}}; }
  void load_tensors(const mn::NamedTensors& tensors) override { all = tensors.front().second; }
  torch::Tensor own = torch::zeros({4, 4}, at::kLong), all = own.clone();
  double recall = 0;
};

int main(int argc, char** argv) {
  return mn::run_job(argc, argv, [&](mn::Job&) {
    auto comm = mn::create_communicator("auto");
    torch::manual_seed(1);
    const auto x = torch::randn({1000, 6}), y = x.slice(1, 0, 4).argmax(1);
    const mn::TensorLoaderOptions how = {.batchsize = 60 / comm->size(), .shuffle = true};
    auto loader = std::make_shared<mn::TensorLoader>(mn::TensorDataset(x, y), comm, how);
    torch::nn::Linear model(6, 4);
    model->to(comm->device());
    auto optimizer = mn::create_multi_node_optimizer(std::make_unique<mn::FusedAdam>(model->parameters(), 0.02), comm);
    auto confusion = std::make_unique<Confusion>();
    const auto loss_of = [model, &confusion = *confusion](const mn::Batch& batch, mn::Summary&) mutable {
      const auto scores = model->forward(batch.data);
      confusion.add(scores.argmax(1).cpu(), batch.target.cpu());
      return torch::nn::functional::cross_entropy(scores, batch.target);
    };
    mn::Trainer trainer(comm, std::move(optimizer), loader, model.ptr(), loss_of,
                        {.epochs = argc > 1 ? std::stoll(argv[1]) : 8, .out = "extension"});
    trainer.extend(std::move(confusion));
    const auto& log = trainer.extend(std::make_unique<mn::extensions::LogReport>());
    trainer.extend(std::make_unique<mn::extensions::Snapshot>());
    trainer.resume("auto");
    const int status = trainer.run();
    if (comm->rank() == 0) std::cout << "recall " << log.last("worst_recall") << std::endl;
    return status;
  });
}

// An extension from nothing: a confusion matrix over the samples of all ranks, which checkpoints hold. The first
// argument is the number of epochs.
#include <nlohmann/json.hpp>
#include <torch/torch.h>

#include <mn/mn.hpp>

/// Counts (class, answer) of all epochs, and reports the recall of the worst class.
class Confusion final : public mn::Extension {
 public:
  /// For the loss function. Local: each rank counts its own samples.
  void add(const torch::Tensor& answer, const torch::Tensor& target) {
    own_.index_put_({target.cpu(), answer.cpu()}, torch::ones(target.size(0), at::kLong), /*accumulate=*/true);
  }

  std::string name() const override { return "Confusion"; }  // key of its state in a checkpoint
  mn::Interval trigger() const override { return {1, mn::IntervalUnit::kEpoch}; }
  int priority() const override { return mn::kPriorityWriter; }  // reports a value: the log, a reader, runs later
  void initialize(mn::Trainer& trainer) override {               // once, after resume() and before the first iteration
    if (trainer.is_root()) mn::log_info("samples counted so far: " + std::to_string(all_.sum().item<std::int64_t>()));
  }
  void run(mn::Trainer& trainer) override {  // on all ranks in the same iteration, so collective calls are allowed
    trainer.communicator().allreduce(own_);
    all_ += own_;  // equal on all ranks
    own_.zero_();
    recall_ = (all_.diag().to(at::kDouble) / all_.sum(1).clamp_min(1)).min().item<double>();
    trainer.report("worst_recall", recall_);  // every rank reports the same value
  }
  // For checkpoints, which hold only rank 0's state. Snapshot runs last: by then own_ is 0 on every rank.
  nlohmann::json state() const override { return recall_; }
  void load_state(const nlohmann::json& state) override { recall_ = state.get<double>(); }
  mn::NamedTensors tensors() const override { return {{"counts", all_}}; }
  void load_tensors(const mn::NamedTensors& tensors) override { all_ = tensors.front().second; }

 private:
  torch::Tensor own_ = torch::zeros({4, 4}, at::kLong), all_ = own_.clone();
  double recall_ = 0;
};

int main(int argc, char** argv) {
  return mn::run_job(argc, argv, [&](mn::Job&) {
    auto comm = mn::create_communicator("auto");
    torch::manual_seed(1);
    const auto x = torch::randn({1000, 6});
    auto loader =
        std::make_shared<mn::TensorLoader>(mn::TensorDataset(x, x.slice(1, 0, 4).argmax(1)), comm,
                                           mn::TensorLoaderOptions{.batchsize = 60 / comm->size(), .shuffle = true});
    torch::nn::Linear model(6, 4);
    model->to(comm->device());
    std::shared_ptr<mn::MultiNodeOptimizer> optimizer =
        mn::create_multi_node_optimizer(std::make_unique<mn::FusedAdam>(model->parameters(), 0.02), comm);
    auto made = std::make_unique<Confusion>();
    const auto loss_of = [&confusion = *made, model](const mn::Batch& batch, mn::Summary&) mutable {
      const auto scores = model->forward(batch.data);
      confusion.add(scores.argmax(1), batch.target);
      return torch::nn::functional::cross_entropy(scores, batch.target);
    };
    const std::int64_t epochs = argc > 1 ? std::stoll(argv[1]) : 8;
    mn::Trainer trainer(comm, optimizer, loader, model.ptr(), loss_of, {.epochs = epochs, .out = "extension"});
    trainer.extend(std::move(made));
    const auto& log = trainer.extend(std::make_unique<mn::extensions::LogReport>());
    trainer.extend(std::make_unique<mn::extensions::Snapshot>());
    trainer.resume("auto");
    const int status = trainer.run();
    if (comm->rank() == 0) std::cout << "recall " << log.last("worst_recall") << std::endl;
    return status;
  });
}

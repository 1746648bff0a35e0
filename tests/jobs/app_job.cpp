// A job over named shards, with what jobs seldom need; app_test runs it.
#include <chrono>
#include <cstdlib>
#include <iostream>
#include <new>
#include <stdexcept>
#include <thread>

#include <nlohmann/json.hpp>
#include <torch/torch.h>

#include <mn/app/app.hpp>

namespace {

class CountRuns final : public mn::Extension {
 public:
  /// A checkpoint waits for `save_time` on rank 0, as it does for a slow disk.
  CountRuns(bool is_root, std::chrono::seconds save_time) : save_time_(is_root ? save_time : std::chrono::seconds(0)) {}
  [[nodiscard]] std::string name() const override { return "CountRuns"; }
  void run(mn::Trainer&) override { ++runs_; }
  [[nodiscard]] nlohmann::json state() const override {
    std::this_thread::sleep_for(save_time_);
    return {};
  }
  void finalize(mn::Trainer& trainer) override {
    if (trainer.is_root()) std::cout << "runs " << runs_ << std::endl;
  }

 private:
  const std::chrono::seconds save_time_;
  int runs_ = 0;
};

class EndEarly final : public mn::Extension {
 public:
  EndEarly(std::string how, int rank) : how_(std::move(how)), rank_(rank) {}
  [[nodiscard]] std::string name() const override { return "EndEarly"; }
  void run(mn::Trainer&) override {
    if (how_ == "exit") std::exit(3);
    if (how_ == "error") throw mn::DataError("the planted error", true);
    if (rank_ != 1) return;
    if (how_ == "bad_alloc") throw std::bad_alloc();
    if (how_ == "device") TORCH_CHECK_WITH(OutOfMemoryError, false, "CUDA out of memory. Tried to allocate 4 PiB.");
    throw std::runtime_error("the planted error");
  }

 private:
  const std::string how_;
  const int rank_;
};

}  // namespace

int main(int argc, char** argv) {
  mn::app::CommonOptions common;
  std::string train = "mnist/val", validation;
  std::int64_t save_seconds = 0;
  std::string end;
  bool instead = false;
  mn::Options options("usage: app_job [options]");
  options.add("train", train, "NAME", "shards to train on");
  options.add("validation", validation, "NAME", "shards to validate on");
  options.add("save-seconds", save_seconds, "let each checkpoint take so long", 0, 600);
  options.add(
      "end", end, "HOW",
      "end rank 1 in iteration 12: throw, or without memory: bad_alloc, device; or all ranks: error, exit; end rank 1 "
      "without memory in the first iteration: memory; before it has a model: early",
      {"throw", "memory", "bad_alloc", "device", "error", "exit", "early"});
  options.add_flag("instead", instead, "do something else");
  return mn::app::run_training(argc, argv, options, common, [&](const std::shared_ptr<mn::Communicator>& comm) {
    if (end == "early" && comm->rank() == 1) throw std::bad_alloc();
    torch::nn::Linear net = mn::app::make_model(common, comm, [] { return torch::nn::Linear(784, 10); });
    mn::app::Training training{.model = net.ptr(), .rate = 0.25};
    if (instead) {
      training.instead = [net, comm] { return net->weight.device().is_cpu() && comm->size() == 2 ? 7 : 1; };
      return training;
    }
    training.train = mn::app::train_batches(train, common, comm, {.workers = 2});
    if (!validation.empty()) training.validation = mn::app::validation_batches(validation, common, comm);
    const bool is_short = end == "memory" && comm->rank() == 1;
    training.loss = [net, is_short](const mn::Batch& batch, mn::Summary&) mutable {
      if (is_short) static_cast<void>(torch::empty({std::int64_t{1} << 50}));
      return torch::nn::functional::cross_entropy(net(batch.data.flatten(1)), batch.target);
    };
    training.evaluate = [net](const mn::Batch& batch, mn::Summary& report) mutable {
      const auto right = net(batch.data.flatten(1)).argmax(1) == batch.target;
      report.add("right", right.to(torch::kFloat).mean().item<double>(), static_cast<double>(batch.samples));
      report.add("last", static_cast<double>(batch.indices.back()), static_cast<double>(batch.samples));
    };
    training.report_every = {10, "iteration"};
    training.extend(std::make_unique<CountRuns>(comm->rank() == 0, std::chrono::seconds(save_seconds)),
                    {.trigger = mn::Interval(2, "iteration")});
    if (!end.empty()) {
      training.extend(std::make_unique<EndEarly>(end, comm->rank()), {.trigger = mn::Interval(12, "iteration")});
    }
    return training;
  });
}

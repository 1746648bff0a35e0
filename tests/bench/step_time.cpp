// step_time [SECONDS] [BACKEND]: a step of jobs/mnist's perceptron (784-1000-1000-10, batch 100 a rank, SGD with
// momentum, made-up data) in each way that ranks can train together, all in one run on the same ranks. The ways take
// turns, so other load on the machine slows all alike. `ratio` is the plain step's time over this one's: above 1, this
// way is faster. "announced" is how a Trainer steps; "alone" has no communication; "torch's SGD" is the plain step with
// that optimizer in place of mn::FusedSgd. Run it under mpiexec with OMP_NUM_THREADS=1.
#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <vector>

#include <torch/torch.h>

#include <mn/core/trace.hpp>
#include <mn/job/job.hpp>
#include <mn/optimizers/fused_sgd.hpp>
#include <mn/tensor/tensor.hpp>
#include <mn/trainer/optimizer.hpp>

namespace {

constexpr std::int64_t kBatch = 100;
constexpr int kStepsPerTurn = 8;
constexpr int kWarmUp = 20;  // overlap tunes its buckets first

struct Net : torch::nn::Module {
  torch::nn::Linear l1 = register_module("l1", torch::nn::Linear(784, 1000));
  torch::nn::Linear l2 = register_module("l2", torch::nn::Linear(1000, 1000));
  torch::nn::Linear l3 = register_module("l3", torch::nn::Linear(1000, 10));
  torch::Tensor forward(const torch::Tensor& x) { return l3(torch::relu(l2(torch::relu(l1(x))))); }
};

enum class Sgd { kFused, kTorchs };

std::unique_ptr<torch::optim::Optimizer> make_sgd(Sgd kind, const std::vector<torch::Tensor>& parameters) {
  const auto options = torch::optim::SGDOptions(0.01).momentum(0.9);
  if (kind == Sgd::kTorchs) return std::make_unique<torch::optim::SGD>(parameters, options);
  return std::make_unique<mn::FusedSgd>(parameters, options);
}

class Way {
 public:
  Way(std::string name, const std::shared_ptr<mn::Communicator>& comm, const mn::OptimizerOptions& options,
      bool announced = false, Sgd sgd = Sgd::kFused)
      : name_(std::move(name)), comm_(comm), announced_(announced) {
    net_->to(comm->device());
    x_ = torch::randn({kBatch, 784}, c10::Device(comm->device()));
    y_ = torch::randint(10, {kBatch}, at::TensorOptions(at::kLong).device(comm->device()));
    optimizer_ = mn::create_multi_node_optimizer(make_sgd(sgd, net_->parameters()), comm, options);
    for (int k = 0; k < kWarmUp; ++k) step();
    optimizer_->synchronize();
    bytes_before_ = optimizer_->bytes_sent();
  }

  void take_turn() {
    comm_->barrier();
    const auto begin = mn::Trace::Clock::now();
    for (int k = 0; k < kStepsPerTurn; ++k) step();
    optimizer_->synchronize();
    turns_s_.push_back(std::chrono::duration<double>(mn::Trace::Clock::now() - begin).count() / kStepsPerTurn);
  }

  /// Collective: the median over turns, of the slowest rank.
  double step_s() {
    std::nth_element(turns_s_.begin(), turns_s_.begin() + static_cast<std::ptrdiff_t>(turns_s_.size() / 2),
                     turns_s_.end());
    double median = turns_s_[turns_s_.size() / 2];
    comm_->allreduce(std::span(&median, 1), mn::ReduceOp::kMax);
    return median;
  }
  double bytes_per_step() const {
    return static_cast<double>(optimizer_->bytes_sent() - bytes_before_) /
           static_cast<double>(turns_s_.size() * kStepsPerTurn);
  }
  const std::string& name() const { return name_; }

 private:
  void step() {
    optimizer_->zero_grad();
    const auto loss = torch::nn::functional::cross_entropy(net_->forward(x_), y_);
    if (announced_) optimizer_->announce_step(kBatch);
    loss.backward();
    optimizer_->step(kBatch);
  }

  std::string name_;
  std::shared_ptr<mn::Communicator> comm_;
  bool announced_;
  std::shared_ptr<Net> net_ = std::make_shared<Net>();
  torch::Tensor x_, y_;
  std::unique_ptr<mn::MultiNodeOptimizer> optimizer_;
  std::vector<double> turns_s_;
  std::uint64_t bytes_before_ = 0;
};

int run(double seconds, const std::string& backend) {
  using mn::Compression;
  const auto comm = mn::create_communicator(backend);
  std::vector<Way> ways;
  ways.emplace_back("plain", comm, mn::OptimizerOptions{});
  ways.emplace_back("announced", comm, mn::OptimizerOptions{}, true);
  ways.emplace_back("alone", std::shared_ptr<mn::Communicator>(comm->split(comm->rank(), 0)), mn::OptimizerOptions{});
  ways.emplace_back("torch's SGD", comm, mn::OptimizerOptions{}, false, Sgd::kTorchs);
  ways.emplace_back("overlap", comm, mn::OptimizerOptions{.overlap = true});
  ways.emplace_back("announced, overlap", comm, mn::OptimizerOptions{.overlap = true}, true);
  ways.emplace_back("double buffering", comm, mn::OptimizerOptions{.double_buffering = true});
  for (const auto kind : {Compression::kFp16, Compression::kBf16, Compression::kTopK, Compression::kPowerSgd}) {
    const std::string name = mn::compression_names()[static_cast<std::size_t>(kind)];
    ways.emplace_back(name, comm, mn::OptimizerOptions{.compression = {.kind = kind}});
    ways.emplace_back(name + ", overlap", comm, mn::OptimizerOptions{.overlap = true, .compression = {.kind = kind}});
  }
  ways.emplace_back("8 local steps", comm, mn::OptimizerOptions{.local_steps = 8});

  const auto begin = mn::Trace::Clock::now();
  bool more = true;
  while (more) {
    for (Way& way : ways) way.take_turn();
    std::int64_t enough = std::chrono::duration<double>(mn::Trace::Clock::now() - begin).count() > seconds ? 1 : 0;
    comm->bcast(std::span(&enough, 1));
    more = enough == 0;
  }
  if (comm->rank() == 0) std::printf("%-20s %10s %8s %14s\n", "way", "ms/step", "ratio", "bytes/step");
  double plain_s = 0;
  for (Way& way : ways) {
    const double step_s = way.step_s();
    if (plain_s == 0) plain_s = step_s;
    if (comm->rank() == 0) {
      std::printf("%-20s %10.3f %8.2f %14.0f\n", way.name().c_str(), step_s * 1e3, plain_s / step_s,
                  way.bytes_per_step());
    }
  }
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  return mn::run_job(argc, argv,
                     [&](mn::Job&) { return run(argc > 1 ? std::atof(argv[1]) : 20, argc > 2 ? argv[2] : "auto"); });
}

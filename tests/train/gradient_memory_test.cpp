// What memory gradients take, and whose it is.
#include <algorithm>
#include <atomic>
#include <fstream>
#include <mutex>
#include <string>

#include <c10/core/CPUAllocator.h>
#include <c10/core/impl/alloc_cpu.h>

#include <mn/tensor/tensor.hpp>

#include "optimizer_fixture.hpp"

namespace mn {
namespace {

using torch::optim::SGD;
using torch::optim::SGDOptions;

/// Bytes of shared memory that this process has in use, its peers' too. Not what is mapped: segments begin where huge
/// pages fit, and the room between them holds no memory.
std::int64_t shared_bytes_in_use() {
  std::ifstream maps("/proc/self/smaps");
  std::int64_t bytes = 0;
  bool is_shared = false;
  for (std::string line; std::getline(maps, line);) {
    if (line.find(" /dev/shm/") != std::string::npos) is_shared = true;
    if (!line.starts_with("Rss:")) continue;
    if (is_shared) bytes += 1024 * std::stoll(line.substr(4));
    is_shared = false;
  }
  return bytes;
}

/// libtorch's memory of the CPU, all threads': counts what lives, and remembers the most that lived at once with the
/// shared memory of this rank.
class CountingAllocator final : public c10::Allocator {
 public:
  explicit CountingAllocator(int ranks) : ranks_(ranks), before_(c10::GetCPUAllocator()) {
    c10::SetCPUAllocator(this, kPriority);
    shared_ = shared_bytes_in_use();
    base_ = now();
  }
  ~CountingAllocator() override { c10::SetCPUAllocator(before_, kPriority); }

  c10::DataPtr allocate(std::size_t bytes) override {
    auto* const block = new Block{c10::alloc_cpu(bytes), static_cast<std::int64_t>(bytes)};
    live_ += block->bytes;
    if (bytes >= kLooked) compare();
    return {block->data, block, &release, c10::Device(c10::kCPU)};
  }
  c10::DeleterFnPtr raw_deleter() const override { return nullptr; }
  void copy_data(void* to, const void* from, std::size_t bytes) const override { default_copy_data(to, from, bytes); }

  /// Forgets the most of earlier steps.
  void start_over() {
    const std::lock_guard lock(mutex_);
    most_ = 0;
  }
  /// Compares what lives with the most so far, shared memory as it is now: to look at that takes milliseconds.
  void look() {
    shared_ = shared_bytes_in_use();
    compare();
  }
  [[nodiscard]] std::int64_t most() const { return most_; }

 private:
  static constexpr std::uint8_t kPriority = 200;
  static constexpr std::size_t kLooked = 64 * 1024;  // smaller blocks do not matter

  struct Block {
    void* data;
    std::int64_t bytes;
  };
  static void release(void* context) {
    const std::unique_ptr<Block> block(static_cast<Block*>(context));
    live_ -= block->bytes;
    c10::free_cpu(block->data);
  }
  void compare() {
    const std::lock_guard lock(mutex_);
    most_ = std::max(most_, now() - base_);
  }
  [[nodiscard]] std::int64_t now() const { return live_ + shared_ / ranks_; }

  static inline std::atomic<std::int64_t> live_ = 0;
  int ranks_;
  std::atomic<std::int64_t> shared_ = 0;
  c10::Allocator* before_;
  std::mutex mutex_;
  std::int64_t base_ = 0;
  std::int64_t most_ = 0;
};

constexpr int kGradients = 40;
constexpr std::int64_t kElements = 32 * 1024;

/// The most memory in each of the first steps, in units of the gradients' own size.
std::vector<double> memory_of_steps(const std::shared_ptr<Communicator>& comm, OptimizerOptions options,
                                    bool announced) {
  std::vector<at::Tensor> parameters;
  for (int i = 0; i < kGradients; ++i) parameters.push_back(torch::zeros({kElements}).requires_grad_());
  options.check_parameters = 0;
  options.bucket_bytes = kElements * sizeof(float);
  std::vector<double> most;
  CountingAllocator memory(comm->size());
  const auto optimizer = create_multi_node_optimizer(std::make_unique<SGD>(parameters, SGDOptions(1)), comm, options);
  for (int step = 0; step < 5; ++step) {
    optimizer->zero_grad();
    at::Tensor loss = torch::zeros({});
    for (const auto& parameter : parameters) loss = loss + (parameter * (comm->rank() + 1)).sum();
    if (announced) optimizer->announce_step(8);
    loss.backward();
    memory.look();
    optimizer->step(8);
    memory.look();
    most.push_back(static_cast<double>(memory.most()) / (kGradients * kElements * sizeof(float)));
    memory.start_over();
  }
  EXPECT_TRUE(parameters[3].allclose(torch::full({kElements}, -5 * (comm->size() + 1) / 2.0)));
  return most;
}

void expect_at_most(double limit, const std::vector<double>& most, std::size_t first, const std::string& way) {
  for (std::size_t step = first; step < most.size(); ++step) {
    EXPECT_LE(most[step], limit) << way << ": step " << step + 1;
  }
}

TEST(GradientMemory, IsThatOfOneSetOfGradients) {
  const auto comm = create_communicator("hierarchical", MPI_COMM_WORLD, {.device = Device{}});
  expect_at_most(1.1, memory_of_steps(comm, {.overlap = false}, false), 0, "at the step");
  expect_at_most(1.1, memory_of_steps(comm, {.overlap = false}, true), 0, "announced");
  expect_at_most(1.1, memory_of_steps(comm, {.overlap = true}, true), 0, "overlap, announced");
  const auto copies = memory_of_steps(comm, {.overlap = true}, false);
  expect_at_most(2.1, copies, 0, "overlap without a promise");
}

/// As with one rank in torch: zero_grad() drops gradients, it does not change them.
TEST_P(OptimizerTest, AGradientThatIsKeptKeepsItsValues) {
  for (const bool by_torch : {false, true}) {
    const at::Tensor p = parameter({3000});
    auto optimizer = sgd({p});
    const auto zero_grad = [&] { by_torch ? optimizer->actual().zero_grad() : optimizer->zero_grad(); };
    std::vector<std::pair<at::Tensor, double>> kept;
    const auto keep = [&](double value) {
      kept.emplace_back(p.grad(), value);
      kept.emplace_back(p.grad().view({30, 100}).narrow(0, 3, 2), value);
    };
    const auto expect_kept = [&](const char* when) {
      for (const auto& [gradient, value] : kept) {
        EXPECT_TRUE(gradient.allclose(torch::full_like(gradient, value))) << gradient[0] << " after " << when;
      }
    };
    zero_grad();
    p.sum().backward();
    keep(1);
    for (int step = 1; step <= 5; ++step) {
      zero_grad();
      (p.sum() * 5 * (rank_ + 1)).backward();
      expect_kept("backward");
      EXPECT_EQ(p.grad()[7].item<double>(), 5 * (rank_ + 1));
      optimizer->step();
      expect_kept("the step");
      keep(5 * rank_sum_ / size_);
    }
    EXPECT_TRUE(torch::allclose(p, torch::full({3000}, -25 * rank_sum_ / size_)));
    optimizer.reset();
    const at::Tensor other = torch::full({3000}, 7.0);  // where the gradients were, perhaps
    expect_kept("the optimizer");
    EXPECT_TRUE(p.grad().is_same(kept.at(kept.size() - 2).first));
  }
}

/// Where nobody keeps a gradient, the next one takes its place without a copy of the old one.
TEST_P(OptimizerTest, AGradientThatNobodyKeepsStaysTheSameTensor) {
  const at::Tensor p = parameter({300, 10});
  const auto optimizer = sgd({p});
  const void* before = nullptr;
  for (int step = 0; step < 5; ++step) {
    optimizer->zero_grad();
    (p * (rank_ + 1)).sum().backward();
    const void* const now = p.grad().unsafeGetTensorImpl();
    if (step > 1) {  // the first steps of overlap lay out memory
      EXPECT_EQ(now, before) << "step " << step;
    }
    before = now;
    optimizer->step();
  }
}

TEST_P(OptimizerTest, AKeptGradientOutlivesAStepThatMakesNone) {
  const at::Tensor p = parameter({3000}), q = parameter({2});
  const auto optimizer = sgd({p, q});
  optimizer->zero_grad();
  (p.sum() + q.sum()).backward();
  const at::Tensor kept = p.grad();
  optimizer->zero_grad();
  q.sum().backward();
  optimizer->step();
  EXPECT_TRUE(kept.equal(torch::ones({3000})));
}

/// The ranks' agreement travels as float32 or float64, also where no gradient does.
TEST_P(OptimizerTest, ParametersMayBeOfASmallTypeAloneOrNone) {
  const at::Tensor p = torch::zeros({5}, torch::kBFloat16).requires_grad_();
  const auto optimizer = sgd({p}), empty = sgd({});
  for (const auto& each : {optimizer.get(), empty.get()}) each->zero_grad();
  (p.sum() * (rank_ + 1)).backward();
  for (const auto& each : {optimizer.get(), empty.get()}) each->step();
  EXPECT_TRUE(torch::allclose(p.to(torch::kFloat), torch::full({5}, -rank_sum_ / size_), 0.02)) << p;
}

}  // namespace
}  // namespace mn

// save_cost MIB SECONDS WAY OUT: trains a model whose parameters and Adam state have MIB mebibytes. WAY none: for
// SECONDS without saves; auto: as with --checkpoint-every auto; always: a save begins when the one before is complete.
// Prints steps a second, saves, the longest time that training waited for one in an iteration, and the memory beside
// that of training. WAY once: a save that training waits for; load: a resume from it. Under mpiexec; tests/bench/saves
// compares.
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <vector>

#include <torch/torch.h>

#include <mn/checkpoint/format/checkpoint_folder.hpp>
#include <mn/job/job.hpp>
#include <mn/optimizers/fused_adam.hpp>
#include <mn/trainer/extensions/snapshot.hpp>

#include "tests/support/resident_bytes.hpp"
#include "tests/train/toy.hpp"

namespace mn {
namespace {

using Clock = std::chrono::steady_clock;

double seconds_since(Clock::time_point begin) { return std::chrono::duration<double>(Clock::now() - begin).count(); }
double mib(std::int64_t bytes) { return static_cast<double>(bytes) / (1 << 20); }

/// Layers of 2,048 × 2,048.
struct Wide : torch::nn::Module {
  explicit Wide(std::int64_t layers) {
    for (std::int64_t k = 0; k < layers; ++k) {
      weights.push_back(register_parameter("weight" + std::to_string(k), torch::randn({2048, 2048}) / 64));
    }
  }
  at::Tensor forward(at::Tensor x) {
    for (const at::Tensor& weight : weights) x = torch::tanh(torch::matmul(x, weight));
    return x;
  }
  std::vector<at::Tensor> weights;
};

/// The same minibatch again and again.
class Same final : public Iterator {
 public:
  std::optional<Batch> next() override { return Batch{torch::ones({16, 2048}), torch::zeros({16}, torch::kLong), 16}; }
  std::int64_t epoch() const override { return 0; }
  double epoch_detail() const override { return 0; }
  std::int64_t steps_per_epoch() const override { return 1 << 30; }
  nlohmann::json state() const override { return nullptr; }
  void load_state(const nlohmann::json&) override {}
  double data_wait_s() const override { return 0; }
};

struct Training {
  Training(std::int64_t state_mib, const std::string& out)
      : model(std::make_shared<Wide>(std::max<std::int64_t>(state_mib / 48, 1))) {
    auto adam = std::make_unique<FusedAdam>(model->parameters(), torch::optim::AdamOptions(1e-5));
    const auto loss = [net = model](const Batch& batch, Summary&) { return net->forward(batch.data).square().mean(); };
    trainer = std::make_unique<Trainer>(toy::world(), create_multi_node_optimizer(std::move(adam), toy::world(), {}),
                                        std::make_shared<Same>(), model, loss,
                                        TrainerOptions{.iterations = 1 << 30, .out = out});
  }
  std::shared_ptr<Wide> model;
  std::unique_ptr<Trainer> trainer;
};

struct Figures {
  std::int64_t steps = 0, saves = 0, before_bytes = 0;
  double train_s = 0, stall_s = 0, longest_step_s = 0;
};

/// After some steps, which make the optimizer's state: until the time is over.
Figures train(Trainer& trainer, double seconds, const std::string& way) {
  constexpr std::int64_t kWarmUp = 3;
  Figures figures;
  Clock::time_point begin, last;
  double stalled_before_s = 0;
  bool was_saving = false;
  const Interval each(1, "iteration");
  trainer.extend("clock", each, [&](Trainer& own) {
    const auto now = Clock::now();
    if (own.iteration() == kWarmUp) {
      begin = now;
      figures.before_bytes = test::resident_bytes();
      (void)test::reset_peak_bytes();
    } else if (own.iteration() > kWarmUp) {
      ++figures.steps;
      figures.train_s = seconds_since(begin);
      figures.longest_step_s = std::max(figures.longest_step_s, std::chrono::duration<double>(now - last).count());
      figures.stall_s = std::max(figures.stall_s, own.checkpointer().stalled_s() - stalled_before_s);
      if (was_saving && !own.checkpointer().is_saving()) ++figures.saves;
    }
    stalled_before_s = own.checkpointer().stalled_s();
    was_saving = own.checkpointer().is_saving();
    last = now;
    std::int64_t is_over = own.iteration() > kWarmUp && seconds_since(begin) > seconds ? 1 : 0;
    own.communicator().bcast(std::span(&is_over, 1));
    if (is_over != 0) own.stop("the time is over");
  });
  if (way == "auto") trainer.extend(std::make_unique<extensions::Snapshot>(2, true), {.trigger = each});
  if (way == "always") {
    trainer.checkpointer().expect_saves();
    trainer.extend("saves", each, [&](Trainer& own) {
      if (own.checkpointer().is_saving() || own.checkpointer().is_preparing() || own.iteration() < kWarmUp) return;
      own.checkpointer().save_in_background([] {}, [out = own.out()] { remove_old_checkpoints(out, 2); });
    });
  }
  (void)trainer.run();
  return figures;
}

void report(const std::string& way, const Trainer& trainer, const Figures& figures) {
  std::printf(
      "%s, rank %d: %.4f steps/s, %ld saves, longest wait %.1f ms, longest step %.0f ms; %.0f MiB of memory, "
      "%.0f more at most\n",
      way.c_str(), trainer.communicator().rank(), static_cast<double>(figures.steps) / figures.train_s,
      static_cast<long>(figures.saves), figures.stall_s * 1e3, figures.longest_step_s * 1e3, mib(figures.before_bytes),
      mib(test::peak_bytes() - figures.before_bytes));
}

/// With nothing beside it.
void save(Training& training, std::int64_t state_mib, const std::string& out) {
  Trainer& trainer = *training.trainer;
  (void)train(trainer, 0.1, "none");
  const std::int64_t before = test::resident_bytes();
  (void)test::reset_peak_bytes();
  trainer.communicator().barrier();
  const auto begin = Clock::now();
  trainer.save(checkpoint_path(out, trainer.iteration()));
  const double save_s = seconds_since(begin);
  std::printf("save, rank %d: %.2f s, %.0f MiB/s, %.0f MiB more at most\n", trainer.communicator().rank(), save_s,
              static_cast<double>(state_mib) / save_s, mib(test::peak_bytes() - before));
}

void load(std::int64_t state_mib, const std::string& out) {
  const std::int64_t start = test::resident_bytes();
  Training training(state_mib, out);
  Communicator& comm = *toy::world();
  comm.barrier();
  (void)test::reset_peak_bytes();
  const std::int64_t made = test::resident_bytes();  // weights, and room for gradients
  const auto begin = Clock::now();
  const bool found = training.trainer->resume("auto");
  const double load_s = seconds_since(begin);
  std::printf(
      "load, rank %d: %s %.2f s, %.0f MiB/s; %.0f MiB of the job before it, %.0f more at most, for a state of %ld "
      "MiB\n",
      comm.rank(), found ? "resumed," : "NOTHING FOUND,", load_s, static_cast<double>(state_mib) / load_s,
      mib(made - start), mib(test::peak_bytes() - made), static_cast<long>(state_mib));
}

int run(int argc, char** argv) {
  if (argc != 5) return 2;
  const std::int64_t state_mib = std::atoll(argv[1]);
  const double seconds = std::atof(argv[2]);
  const std::string way = argv[3], out = argv[4];
  if (way == "load") {
    load(state_mib, out);
    return 0;
  }
  Training training(state_mib, out);
  if (way == "once") {
    save(training, state_mib, out);
  } else {
    report(way, *training.trainer, train(*training.trainer, seconds, way));
  }
  return 0;
}

}  // namespace
}  // namespace mn

int main(int argc, char** argv) {
  return mn::run_job(argc, argv, [&](mn::Job&) { return mn::run(argc, argv); });
}

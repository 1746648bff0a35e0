// soak STEPS OUT: whether anything grows with a training. Trains a small network for STEPS steps with a report every 4,
// a validation and a checkpoint every 400, and all that jobs write. Prints a line for each tenth of the steps: the time
// of a step, memory and descriptors of each rank, the size of the newest checkpoint's manifest, and the bytes of files
// that are appended to. Ends with status 1 where memory, descriptors or manifests have grown since the second tenth.
// Under mpiexec.
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <string>
#include <vector>

#include <mn/checkpoint/format/checkpoint_folder.hpp>
#include <mn/job/job.hpp>
#include <mn/trainer/extensions/dump_graph.hpp>
#include <mn/trainer/extensions/fail_on_non_number.hpp>
#include <mn/trainer/extensions/log_report.hpp>
#include <mn/trainer/extensions/plot_report.hpp>
#include <mn/trainer/extensions/run_record.hpp>
#include <mn/trainer/extensions/snapshot.hpp>
#include <mn/trainer/extensions/tensorboard.hpp>
#include <mn/trainer/extensions/validation.hpp>

#include "tests/support/resident_bytes.hpp"
#include "tests/train/toy.hpp"

namespace mn {
namespace {

namespace fs = std::filesystem;
namespace ext = extensions;

constexpr double kReports = 4, kSaves = 400;  // steps
constexpr int kParts = 10;

/// Of one part of the training, on this rank.
struct Figures {
  double step_ms = 0;
  std::int64_t memory_bytes = 0, descriptors = 0, manifest_bytes = 0;
};

class Loss final : public Evaluator {
 public:
  explicit Loss(const Trainer& trainer) : trainer_(trainer) {}
  Summary evaluate_local() override {
    Summary summary;
    summary.add("loss", 1 / (1.0 + static_cast<double>(trainer_.iteration())));
    return summary;
  }

 private:
  const Trainer& trainer_;
};

std::int64_t size_of(const fs::path& path) {
  std::error_code none;
  return fs::exists(path, none) ? static_cast<std::int64_t>(fs::file_size(path, none)) : 0;
}

std::int64_t descriptors() {
  std::int64_t count = -1;  // the folder's own
  for (const auto& each : fs::directory_iterator("/proc/self/fd")) count += each.path().empty() ? 0 : 1;
  return count;
}

Figures look(const Trainer& trainer, double seconds, std::int64_t steps) {
  const auto saved = find_checkpoints(trainer.out());
  return {seconds * 1e3 / static_cast<double>(steps), test::resident_bytes(), descriptors(),
          saved.empty() ? 0 : size_of(saved.front() / kCheckpointManifestName)};
}

void print(const Trainer& trainer, const Figures& now) {
  std::printf("rank %d step %6ld: %.3f ms a step, %.1f MiB of memory, %ld descriptors", trainer.communicator().rank(),
              static_cast<long>(trainer.iteration()), now.step_ms, static_cast<double>(now.memory_bytes) / (1 << 20),
              static_cast<long>(now.descriptors));
  if (trainer.is_root()) {
    std::printf(", manifest %ld bytes, log %ld, run.jsonl %ld", static_cast<long>(now.manifest_bytes),
                static_cast<long>(size_of(trainer.out() / "log")),
                static_cast<long>(size_of(trainer.out() / "run.jsonl")));
  }
  std::printf("\n");
  std::fflush(stdout);
}

void add_extensions(Trainer& trainer) {
  trainer.extend(std::make_unique<ext::DumpGraph>());
  trainer.extend(
      std::make_unique<ext::Validation>(create_multi_node_evaluator(std::make_unique<Loss>(trainer), toy::world())),
      {.trigger = Interval(kSaves, "iteration")});
  const auto& log = trainer.extend(std::make_unique<ext::LogReport>(), {.trigger = Interval(kReports, "iteration")});
  trainer.extend(std::make_unique<ext::FailOnNonNumber>(log));
  trainer.extend(std::make_unique<ext::PlotReport>(log), {.trigger = Interval(kReports, "iteration")});
  trainer.extend(std::make_unique<ext::RunRecord>(log));
  trainer.extend(std::make_unique<ext::TensorBoard>(log));
  trainer.extend(std::make_unique<ext::BestSnapshot>(ext::Monitor(log, "validation/main/loss", ext::Better::kLower)));
  trainer.extend(std::make_unique<ext::Snapshot>(), {.trigger = Interval(kSaves, "iteration")});
}

int run(int argc, char** argv) {
  if (argc != 3) return 2;
  const std::int64_t steps = std::atoll(argv[1]);
  toy::ToyJob job(toy::world(), {.trainer = {.iterations = steps, .out = argv[2]}});
  std::vector<Figures> figures;
  auto begin = std::chrono::steady_clock::now();
  add_extensions(*job.trainer);
  const std::int64_t part = std::max<std::int64_t>(steps / kParts, 1);
  job.trainer->extend("figures", {static_cast<double>(part), "iteration"}, [&](Trainer& trainer) {
    const double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
    figures.push_back(look(trainer, seconds, part));
    print(trainer, figures.back());
    begin = std::chrono::steady_clock::now();
  });
  if (job.trainer->run() != 0 || figures.size() < 3) return 1;
  const Figures& early = figures[1];
  const Figures& late = figures.back();
  constexpr std::int64_t kSlackBytes = 16 << 20;  // what allocators keep
  const bool is_flat = late.memory_bytes < early.memory_bytes + kSlackBytes &&
                       late.descriptors <= early.descriptors + 4 && late.manifest_bytes < early.manifest_bytes + 1000;
  if (!is_flat) std::printf("rank %d: something grows\n", toy::world()->rank());
  return is_flat ? 0 : 1;
}

}  // namespace
}  // namespace mn

int main(int argc, char** argv) {
  return mn::run_job(argc, argv, [&](mn::Job&) { return mn::run(argc, argv); });
}

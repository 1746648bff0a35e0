// small_training OUT ITERATIONS EVERY STEP_MS [WAY[@N[:PLACE]]]: a training that is the same at every run. It resumes
// from OUT's newest checkpoint, saves one every EVERY iterations and at the best report, keeps two, takes at least
// STEP_MS for an iteration, and ends with a line "weights HASH". WAY fresh: it does not resume. Others are what the
// last rank does after iteration N (5): stop (itself), sleep (in an extension), collective (one that the others lack),
// leave (main, by an exception that it catches; leave-first: before the training), exit0, exit3, _exit, text (which it
// throws), kill (itself); or what rank 0 does alone: validate (for 3 s), rank0 (as long, without a word), late (it does
// so after the training). PLACE is forward (between the layers), backward (likewise) or update (with the mean gradient)
// of the next iteration. MN_FAULTS_SHARD is the training's --shard; each parameter is a unit.
#include <chrono>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <functional>
#include <iostream>
#include <string>
#include <thread>

#include <unistd.h>

#include <mn/core/checksum.hpp>
#include <mn/job/job.hpp>
#include <mn/sharding/shard_pass.hpp>
#include <mn/trainer/evaluator.hpp>
#include <mn/trainer/extensions/log_report.hpp>
#include <mn/trainer/extensions/run_record.hpp>
#include <mn/trainer/extensions/snapshot.hpp>

#include "tests/train/toy.hpp"

namespace mn {
namespace {

struct Leave {};

/// Touches the file that MN_FAILING_STAMP names: the job's end takes its time from here on.
void stamp() {
  if (const char* path = std::getenv("MN_FAILING_STAMP")) std::ofstream(path).put('\n');
}

void misbehave(const std::string& way, Communicator& comm) {
  if (comm.rank() != comm.size() - 1) return;
  stamp();
  if (way == "stop") raise(SIGSTOP);
  if (way == "sleep") std::this_thread::sleep_for(std::chrono::hours(1));
  if (way == "collective") comm.barrier();
  if (way == "leave") throw Leave();
  if (way == "exit0") std::exit(0);
  if (way == "exit3") std::exit(3);
  if (way == "_exit") _exit(0);
  if (way == "text") throw "enough";
  if (way == "kill") raise(SIGKILL);
}

constexpr auto kAlone = std::chrono::seconds(3);

/// What rank 0 does alone, while the others wait for it in their next call.
void work_alone(const std::string& way, toy::ToyJob& job) {
  if (way == "rank0") std::this_thread::sleep_for(kAlone);
  if (way != "validate") return;
  const auto samples = std::make_shared<toy::ToyIterator>(20, 2, *toy::world());
  create_evaluator(samples, job.model, [&](const Batch& batch, Summary& report) {
    std::this_thread::sleep_for(kAlone / samples->steps_per_epoch());
    report.add("loss", job.model->forward(batch.data).sum().item<double>(), static_cast<double>(batch.samples));
  })->evaluate();
}

/// Calls `act` at `place` of each iteration.
void misbehave_at(const std::string& place, const toy::ToyJob& job, const std::function<void()>& act) {
  if (place == "forward") job.model->between_layers = act;
  if (place == "backward") job.model->second->weight.register_hook([act](const at::Tensor&) { act(); });
  if (place == "update") job.trainer->optimizer().add_hook("misbehave", [act](const auto&) { act(); });
}

Shard shard_of_environment() {
  const char* const name = std::getenv("MN_FAULTS_SHARD");
  return parse_shard(name == nullptr ? "none" : name);
}

std::uint64_t hash_of(const at::Tensor& weights) {
  return hash64(std::span(static_cast<const std::byte*>(weights.const_data_ptr()), weights.nbytes()), 0);
}

int train(int argc, char** argv) {
  const auto step = std::chrono::milliseconds(std::atoi(argv[4]));
  const std::string words = argc > 5 ? argv[5] : "", way = words.substr(0, words.find('@'));
  const std::int64_t when = way == words ? 5 : std::stoll(words.substr(way.size() + 1));
  const std::string place = words.find(':') == std::string::npos ? "" : words.substr(words.find(':') + 1);
  if (way == "leave-first" && toy::world()->rank() == toy::world()->size() - 1) return stamp(), 0;
  toy::ToyJob job(toy::world(),
                  {.noise = true,
                   .fused = true,
                   .trainer = {.iterations = std::atoi(argv[2]), .out = argv[1], .checkpoint_on_signal = true},
                   .optimizer = {.shard = {.what = shard_of_environment(), .unit_bytes = 0}}});
  Trainer& trainer = *job.trainer;
  const auto& log = trainer.extend(std::make_unique<extensions::LogReport>(), {.trigger = Interval(2, "iteration")});
  trainer.extend(std::make_unique<extensions::RunRecord>(log));
  trainer.extend("step", {1, "iteration"}, [&](Trainer& own) {
    std::this_thread::sleep_for(step);
    if (own.iteration() != when || !place.empty()) return;
    if (own.is_root()) work_alone(way, job);
    misbehave(way, own.communicator());
  });
  misbehave_at(place, job, [&] {
    if (trainer.iteration() == when) misbehave(way, trainer.communicator());
  });
  const extensions::Monitor monitor(log, "main/loss", extensions::Better::kLower);
  trainer.extend(std::make_unique<extensions::BestSnapshot>(monitor, 2));
  trainer.extend(std::make_unique<extensions::Snapshot>(2), {.trigger = Interval(std::atoi(argv[3]), "iteration")});
  if (way != "fresh") trainer.resume("auto");
  int status = 0;
  try {
    status = trainer.run();
  } catch (const Leave&) {
    return 0;
  }
  if (way == "late" && trainer.is_root()) std::this_thread::sleep_for(kAlone);
  if (status != 0) return status;
  const WholeParameters whole(*job.model);
  if (trainer.is_root()) std::cout << "weights " << hash_of(job.weights()) << std::endl;
  return 0;
}

}  // namespace
}  // namespace mn

int main(int argc, char** argv) {
  return mn::run_job(argc, argv, [&](mn::Job&) { return argc < 5 ? 2 : mn::train(argc, argv); });
}

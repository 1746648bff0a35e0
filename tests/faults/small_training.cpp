// small_training OUT ITERATIONS EVERY STEP_MS [WAY]: a training that is the same at every run. It resumes from OUT's
// newest checkpoint, saves one every EVERY iterations, keeps two, takes at least STEP_MS for an iteration, and ends
// with a line "weights HASH". WAY fresh: it does not resume. Others are what the last rank does after iteration 5: stop
// (itself), sleep (in an extension), collective (one that the others lack).
#include <chrono>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <iostream>
#include <string>
#include <thread>

#include <mn/core/checksum.hpp>
#include <mn/job/job.hpp>
#include <mn/trainer/extensions/log_report.hpp>
#include <mn/trainer/extensions/run_record.hpp>
#include <mn/trainer/extensions/snapshot.hpp>

#include "tests/train/toy.hpp"

namespace mn {
namespace {

void misbehave(const std::string& way, const Trainer& trainer) {
  Communicator& comm = trainer.communicator();
  if (trainer.iteration() != 5 || comm.rank() != comm.size() - 1) return;
  if (way == "stop") raise(SIGSTOP);
  if (way == "sleep") std::this_thread::sleep_for(std::chrono::hours(1));
  if (way == "collective") comm.barrier();
}

std::uint64_t hash_of(const at::Tensor& weights) {
  return hash64(std::span(static_cast<const std::byte*>(weights.const_data_ptr()), weights.nbytes()), 0);
}

int train(int argc, char** argv) {
  const auto step = std::chrono::milliseconds(std::atoi(argv[4]));
  const std::string way = argc > 5 ? argv[5] : "";
  toy::ToyJob job(
      toy::world(),
      {.noise = true, .trainer = {.iterations = std::atoi(argv[2]), .out = argv[1], .checkpoint_on_signal = true}});
  Trainer& trainer = *job.trainer;
  const auto& log = trainer.extend(std::make_unique<extensions::LogReport>(), {.trigger = Interval(2, "iteration")});
  trainer.extend(std::make_unique<extensions::RunRecord>(log));
  trainer.extend("step", {1, "iteration"}, [&](Trainer& own) {
    std::this_thread::sleep_for(step);
    misbehave(way, own);
  });
  trainer.extend(std::make_unique<extensions::Snapshot>(2), {.trigger = Interval(std::atoi(argv[3]), "iteration")});
  if (way != "fresh") trainer.resume("auto");
  const int status = trainer.run();
  if (status == 0 && trainer.is_root()) std::cout << "weights " << hash_of(job.weights()) << std::endl;
  return status;
}

}  // namespace
}  // namespace mn

int main(int argc, char** argv) {
  return mn::run_job(argc, argv, [&](mn::Job&) { return argc < 5 ? 2 : mn::train(argc, argv); });
}

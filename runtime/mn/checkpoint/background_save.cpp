#include <utility>

#include <pthread.h>
#include <signal.h>

#include <mn/checkpoint/background_save.hpp>

namespace mn {
namespace {

/// A thread that no signal is delivered to: the program's handlers run where they did before.
template <class Work>
std::thread start_quietly(Work work) {
  sigset_t all = {}, before = {};
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &before);
  std::thread thread(std::move(work));
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
  return thread;
}

}  // namespace

BackgroundSave::~BackgroundSave() { join(); }

void BackgroundSave::join() {
  if (writer_.joinable()) writer_.join();
}

void BackgroundSave::begin(Communicator& comm, const std::filesystem::path& path, const Checkpoint& checkpoint) {
  auto save = std::make_unique<CheckpointSave>(comm, path, checkpoint);
  save->copy_to(memory_);
  written_ = false;
  save_ = std::move(save);
  writer_ = start_quietly([this] {
    save_->write();
    written_ = true;
  });
}

void BackgroundSave::commit() {
  join();
  const auto save = std::exchange(save_, nullptr);
  save->commit();
}

}  // namespace mn

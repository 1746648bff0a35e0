#include <utility>

#include <mn/checkpoint/background_save.hpp>
#include <mn/core/blocked_signals.hpp>

namespace mn {

BackgroundSave::~BackgroundSave() { join(); }

void BackgroundSave::join() {
  if (writer_.joinable()) writer_.join();
}

void BackgroundSave::begin(Communicator& comm, const std::filesystem::path& path, const Checkpoint& checkpoint) {
  auto save = std::make_unique<CheckpointSave>(comm, path, checkpoint);
  save->copy_to(memory_);
  written_ = false;
  save_ = std::move(save);
  const BlockedSignals blocked;
  writer_ = std::thread([this] {
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

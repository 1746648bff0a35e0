#include <mn/checkpoint/checkpoint_folder.hpp>
#include <mn/comm/on_root.hpp>
#include <mn/core/error.hpp>
#include <mn/trainer/extensions/snapshot.hpp>
#include <mn/trainer/trainer.hpp>

namespace mn::extensions {

Snapshot::Snapshot(std::size_t keep) : keep_(keep) {
  if (keep_ == 0) throw UsageError("the number of checkpoints to keep must be at least 1, got 0");
}

void Snapshot::run(Trainer& trainer) {
  on_root<DataError>(
      trainer.communicator(), [&] { set_later_checkpoints_aside(trainer.out(), trainer.iteration()); }, true);
  trainer.save(checkpoint_path(trainer.out(), trainer.iteration()));
  on_root<DataError>(
      trainer.communicator(), [&] { remove_old_checkpoints(trainer.out(), keep_); }, true);
}

void Snapshot::finalize(Trainer& trainer) {
  if (!trainer.is_saved()) run(trainer);
}

}  // namespace mn::extensions

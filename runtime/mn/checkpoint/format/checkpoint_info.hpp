/// What a checkpoint is of, before a job that fits is made.
#pragma once

#include <cstdint>
#include <filesystem>

namespace mn {

/// How far the training was.
struct CheckpointInfo {
  std::int64_t iteration = 0;  ///< iterations completed
  std::int64_t epoch = 0;      ///< epochs completed
  double epoch_detail = 0;     ///< the same with the fraction of the current epoch
  std::int64_t ranks = 0;      ///< that trained
};

/// Local. Reads and checks the whole file; throws the DataError of Trainer::resume() if it is absent or damaged.
[[nodiscard]] CheckpointInfo read_checkpoint_info(const std::filesystem::path& path);

}  // namespace mn

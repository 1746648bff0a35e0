/// How the ranks of a multi-node optimizer train together.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>

#include <mn/train/compression/gradient_compressor.hpp>
#include <mn/train/trace.hpp>

namespace mn {

/// By default gradients are averaged at each step. Overlap or double buffering, and compression, change how; local SGD
/// averages parameters instead, and goes with none of them.
struct OptimizerOptions {
  bool overlap = false;                             ///< reduce buckets of gradients while backward goes on
  bool double_buffering = false;                    ///< apply the previous step's mean while this one is reduced
  CompressionOptions compression = {};              ///< what travels of the gradients
  std::int64_t local_steps = 1;                     ///< updates of each rank between averages of the parameters
  double outer_momentum = 0;                        ///< of those averages, in [0, 1)
  bool deterministic = false;                       ///< freezes overlap's buckets instead of tuning them at first
  std::size_t bucket_bytes = std::size_t{4} << 20;  ///< overlap's buckets before tuning
  std::shared_ptr<Trace> trace = {};                ///< where communication and updates are recorded, if not null
};

/// Throws UsageError if they contradict each other or are out of range.
void check_options(const OptimizerOptions& options);

}  // namespace mn

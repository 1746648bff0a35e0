#include <mn/gradients/optimizer_options.hpp>

#include <string>

#include <mn/core/error.hpp>

namespace mn {
namespace {

void check_compression(const CompressionOptions& options) {
  if (!(options.density > 0 && options.density <= 1)) {
    throw UsageError("the density of top-k compression must be above 0 and at most 1, got " +
                     std::to_string(options.density));
  }
  if (options.rank < 1)
    throw UsageError("the rank of PowerSGD's matrices must be at least 1, got " + std::to_string(options.rank));
}

/// Rejects a GradScaler together with options that keep gradients for later steps. When gradients overflow, the
/// GradScaler leaves out the step, and no part of these gradients may reach a later step.
void check_scaling(const OptimizerOptions& options) {
  if (!options.grad_scaler) return;
  const char* other = options.double_buffering                             ? "double buffering"
                      : options.local_steps > 1                            ? "local steps"
                      : options.compression.kind == Compression::kTopK     ? "topk"
                      : options.compression.kind == Compression::kPowerSgd ? "powersgd"
                                                                           : nullptr;
  if (other != nullptr) {
    throw UsageError("float16 with scaled losses (fp16) excludes " + std::string(other) +
                     ", which keeps gradients for later steps: use bf16, which needs no scaling");
  }
}

}  // namespace

void check_options(const OptimizerOptions& options) {
  check_compression(options.compression);
  check_scaling(options);
  const bool overlap = options.overlap.value_or(false);
  if (overlap && options.double_buffering) {
    throw UsageError(
        "overlap (--overlap) and double buffering (--double-buffering) exclude each other: a stale step has nothing to "
        "overlap with backward");
  }
  if (options.shard.what != Shard::kNone) {
    const char* const other = options.double_buffering                         ? "double buffering (--double-buffering)"
                              : options.local_steps > 1                        ? "local steps (--local-steps)"
                              : options.compression.kind != Compression::kNone ? "compression (--compress)"
                                                                               : nullptr;
    if (other != nullptr) throw UsageError("sharding (--shard) and " + std::string(other) + " exclude each other");
  }
  if (options.check_parameters < 0) {
    throw UsageError("updates between two comparisons of the parameters must be at least 0, got " +
                     std::to_string(options.check_parameters));
  }
  if (options.local_steps < 1)
    throw UsageError("local SGD needs at least 1 step between two averages, got " +
                     std::to_string(options.local_steps));
  if (!(options.outer_momentum >= 0 && options.outer_momentum < 1)) {
    throw UsageError("the outer momentum must be at least 0 and below 1, got " +
                     std::to_string(options.outer_momentum));
  }
  if (options.local_steps == 1) {
    if (options.outer_momentum > 0)
      throw UsageError("an outer momentum needs local steps: more than 1 between two averages");
    return;
  }
  const char* other = overlap                                          ? "overlap (--overlap)"
                      : options.double_buffering                       ? "double buffering (--double-buffering)"
                      : options.compression.kind != Compression::kNone ? "compression (--compress)"
                      : options.loss_ranks                             ? "losses of other ranks"
                                                                       : nullptr;
  if (other != nullptr) {
    throw UsageError("local steps (--local-steps) average parameters, not gradients: they exclude " +
                     std::string(other));
  }
}

}  // namespace mn

/// How a run of the stand-in is set up, which of its calls fail, and what it says.
///
/// Variables, read once:
/// STAND_IN_GPUS          GPUs that each process sees (4)
/// STAND_IN_SEED          of the random delays (1)
/// STAND_IN_DELAY_US      scale of the delay before an operation of a stream (200; 0: none)
/// STAND_IN_FAIL          CALL:N: the Nth call of that function of CUDA or NCCL fails, on rank STAND_IN_FAIL_RANK (0)
/// STAND_IN_CALLS         a file: at its end, rank R writes to FILE.R how often it called what
/// STAND_IN_LOSS          error: NCCL learns of a dead peer, as over a network; by default it waits for it
/// STAND_IN_NCCL_VERSION  22809, say: the version that NCCL names (its header's); read at each question
/// STAND_IN_WINDOWS       1: ncclCommWindowRegister makes windows; by default NCCL finds no NVLink for them
/// STAND_IN_PATIENCE_S    seconds after which a collective that waits says for whom (10)
#pragma once

#include <chrono>
#include <cstdint>
#include <string>
#include <string_view>

namespace mn::stand_in {

struct Settings {
  int rank = 0;
  int gpus = 4;
  std::uint64_t seed = 1;
  std::chrono::microseconds delay{200};
  bool tells_loss = false;
  std::chrono::seconds patience{10};
};
[[nodiscard]] const Settings& settings();

/// Counts the call. True if it is the one that must fail.
[[nodiscard]] bool must_fail(std::string_view call);
/// How often that function was called so far.
[[nodiscard]] long calls_of(std::string_view call);

/// What the last ncclCommSplit asked for: most thread blocks, and a policy of thread blocks; NCCL_CONFIG_UNDEF_INT:
/// nothing.
struct SplitLimits {
  int max_ctas;
  int cta_policy;
};
[[nodiscard]] SplitLimits limits_of_last_split();

/// The `number`th call of that function from now on fails; for tests, in place of STAND_IN_FAIL.
void fail_call(std::string_view call, long number);

/// A line on stderr, in one piece.
void complain(const std::string& what);

}  // namespace mn::stand_in

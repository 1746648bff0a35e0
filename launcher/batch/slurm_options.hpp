/// The options of sbatch and srun, as getopt_long(3) reads them.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace mn::launcher {

enum class SlurmCommand { kSbatch, kSrun };

struct SlurmOption {
  int line = 0;
  std::string name;      ///< long name, also of a short option
  std::string value;     ///< empty for a flag
  bool is_known = true;  ///< false for options of plugins, whose value may be the next word
};

/// Something in a batch script that fails.
struct LineFinding {
  int line = 0;  ///< 0: the whole file
  std::string what;
  std::string remedy;
};
using LineFindings = std::vector<LineFinding>;

/// The finding of an error's text, "WHAT; REMEDY" or WHAT alone.
[[nodiscard]] LineFinding finding_of(int line, const std::string& text);

/// Reads the options at the beginning of `words`, and removes them from `words`. Options without their value are
/// findings, and so are sbatch's unknown options that look misspelled: others may be those of plugins.
[[nodiscard]] std::vector<SlurmOption> take_options(SlurmCommand command, std::vector<std::string>& words, int line,
                                                    LineFindings& findings);

/// The last value of the option `name`; no value if it is not given.
[[nodiscard]] std::optional<std::string> last_value(const std::vector<SlurmOption>& options, const std::string& name);

/// The last value of the option `name`, if it is one number.
[[nodiscard]] std::optional<std::int64_t> last_number(const std::vector<SlurmOption>& options, const std::string& name);

[[nodiscard]] bool has_unknown(const std::vector<SlurmOption>& options);

/// Findings about values that have a wrong form: numbers, times, sizes, signals.
[[nodiscard]] LineFindings check_values(const std::vector<SlurmOption>& options);

/// The number of GPUs in "gpu:a100:4", "a100:4" or "4". A name alone counts 1.
[[nodiscard]] std::int64_t gpu_count(const std::string& text);

}  // namespace mn::launcher

/// The pattern of --output: the names of the files for a rank's standard output and standard error.
///
/// A text without % names a folder for the files rank-0000.out and rank-0000.err (for rank 0). In a text with %, the
/// following fields are replaced:
///   %r   rank; %4r with four digits          %h   host
///   %j   number of the batch system's job    %t   out or err; without it both streams go to one file
///   %s   number of the job's step            %%   a percent sign
#pragma once

#include <filesystem>
#include <string>

namespace mn::launcher {

/// The values that replace the fields of a pattern.
struct OutputNames {
  int rank = 0;
  std::string job;
  std::string host;
  std::string step;
};

/// Throws UsageError if the pattern has an unknown field; the error names its letter.
void check_output_pattern(const std::string& pattern);

/// The file for `stream` ("out" or "err") of a rank.
[[nodiscard]] std::filesystem::path output_file(const std::string& pattern, const OutputNames& names,
                                                const std::string& stream);

/// Whether each rank has its own files: true if `pattern` names a folder or has the field %r.
[[nodiscard]] bool names_ranks(const std::string& pattern);

}  // namespace mn::launcher

/// The pattern of --output: names of files for a rank's standard output and error.
///
/// A text without % names a folder for files rank-0000.out and .err. In a pattern, these fields are replaced:
///   %r   rank; %4r with four digits          %h   host
///   %j   number of the batch system's job    %t   out or err; without it both streams go to one file
///   %s   number of the job's step            %%   a percent sign
#pragma once

#include <filesystem>
#include <string>

namespace mn::launcher {

/// The texts that replace the fields of a pattern.
struct OutputNames {
  int rank = 0;
  std::string job;
  std::string host;
  std::string step;
};

/// Throws UsageError if a field of the pattern has an unknown letter; the error names the letter.
void check_output_pattern(const std::string& pattern);

/// The file for the stream "out" or "err".
[[nodiscard]] std::filesystem::path output_file(const std::string& pattern, const OutputNames& names,
                                                const std::string& stream);

/// Whether each rank writes its own files: true for a folder, and for a pattern with %r.
[[nodiscard]] bool names_ranks(const std::string& pattern);

}  // namespace mn::launcher

/// Surroundings of the process: environment variables, host, executable.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>

namespace mn {

/// The variable's value; no value if unset or empty.
[[nodiscard]] std::optional<std::string> environment(const char* name);

/// The variable as a whole number; no value if unset or empty. Throws UsageError for anything else, with its name.
[[nodiscard]] std::optional<std::int64_t> environment_int(const char* name);

/// gethostname(), without a domain.
[[nodiscard]] std::string host_name();

[[nodiscard]] std::filesystem::path executable_path();

}  // namespace mn

/// What the process finds around it: environment variables, its host, its own executable.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>

namespace mn {

/// The variable's value; no value if it is unset or empty.
[[nodiscard]] std::optional<std::string> environment(const char* name);

/// The variable as a whole number. Throws UsageError that names the variable if it holds anything else.
[[nodiscard]] std::optional<std::int64_t> environment_int(const char* name);

/// gethostname(), without a domain.
[[nodiscard]] std::string host_name();

/// Full path of the running executable.
[[nodiscard]] std::filesystem::path executable_path();

}  // namespace mn

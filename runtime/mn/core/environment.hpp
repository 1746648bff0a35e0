/// Facts about the surroundings of the process: environment variables, host, executable.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>

namespace mn {

/// The variable's value; no value if the variable is unset or empty.
[[nodiscard]] std::optional<std::string> environment(const char* name);

/// The variable as a whole number; no value if the variable is unset or empty. If it is not a number, throws a
/// UsageError that names the variable.
[[nodiscard]] std::optional<std::int64_t> environment_int(const char* name);

/// The host's name, as gethostname() gives it, without the domain.
[[nodiscard]] std::string host_name();

[[nodiscard]] std::filesystem::path executable_path();

}  // namespace mn

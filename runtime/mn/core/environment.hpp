/// Environment variables, the host's name and the executable's path.
#pragma once

#include <chrono>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>

namespace mn {

/// The value of the environment variable `name`; no value if it is unset or empty.
[[nodiscard]] std::optional<std::string> environment(const char* name);

/// The environment variable `name` as a whole number; no value if it is unset or empty. If its text is not a whole
/// number, throws a UsageError that names the variable.
[[nodiscard]] std::optional<std::int64_t> environment_int(const char* name);

/// The environment variable `name` as a number of seconds, or `preset` if it is unset or empty. If its text is not a
/// number from 0 to `most`, throws a UsageError with the variable's name and `none`, the meaning of 0, for example "no
/// watch".
[[nodiscard]] std::chrono::seconds environment_seconds(const char* name, std::int64_t preset, std::int64_t most,
                                                       const char* none);

/// The host's name, as gethostname() gives it, without the domain.
[[nodiscard]] std::string host_name();

[[nodiscard]] std::filesystem::path executable_path();

}  // namespace mn

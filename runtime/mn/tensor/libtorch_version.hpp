/// Ends a program that has loaded a libtorch of another minor version than it was compiled with. Classes differ between
/// minor versions of libtorch, and the program would crash or compute nonsense.
#pragma once

#include <string>
#include <string_view>

#include <torch/version.h>

namespace mn {

/// Returns the version of the libtorch that the process has loaded, such as "2.11.0".
[[nodiscard]] std::string loaded_libtorch();
/// Returns one line about versions of libtorch with different major or minor numbers, or an empty text. The program was
/// compiled with `program`, mn with `own`, and the process has loaded `loaded`.
[[nodiscard]] std::string libtorch_fault(std::string_view program, std::string_view own, std::string_view loaded);
/// Returns true if libtorch_fault() is empty. Otherwise prints its text and ends the process with kExitCannotRun.
bool require_libtorch(std::string_view program);

/// Checks each program that includes this header, before main().
inline const bool libtorch_fits = require_libtorch(TORCH_VERSION);

}  // namespace mn

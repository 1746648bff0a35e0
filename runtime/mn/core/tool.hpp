/// The function from which mnshard, mncheck and mnreport build their main().
#pragma once

#include <functional>
#include <string_view>

namespace mn {

/// Calls `run` and returns its exit status. If `run` throws, prints a line with `name` and the error, and returns the
/// error's exit status. An error of all ranks is printed only by rank 0.
[[nodiscard]] int run_tool(std::string_view name, const std::function<int()>& run);

}  // namespace mn

/// The function from which mnshard, mncheck and mnreport build their main().
#pragma once

#include <functional>
#include <string_view>

namespace mn {

/// Calls `run` and returns its exit status. If `run` throws, prints the error as a line that begins with `name` and
/// returns the error's exit status. If all ranks have the error, only rank 0 prints it.
[[nodiscard]] int run_tool(std::string_view name, const std::function<int()>& run);

}  // namespace mn

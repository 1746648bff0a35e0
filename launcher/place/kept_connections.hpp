/// Connections that outlive the library which made them, and exec.
#pragma once

#include <functional>

namespace mn::launcher {

/// Calls `connect` and keeps the sockets that it connects open until this process and what it becomes end, though a
/// library shuts them down and closes them.
void keep_connections_of(const std::function<void()>& connect);

}  // namespace mn::launcher

/// Keeps connections open that a library has made: beyond the library's end and beyond exec.
#pragma once

#include <functional>

namespace mn::launcher {

/// Calls `connect` and keeps the sockets that it connects open until the process ends, exec included, even if the
/// library shuts down and closes its sockets.
void keep_connections_of(const std::function<void()>& connect);

}  // namespace mn::launcher

/// Finalizing PMI in a program's stead.
#pragma once

namespace mn::launcher {

/// Leaves a process behind that waits for the end of this one and of what it becomes. If nothing came on the PMI socket
/// `fd` until then, the program did not use PMI, and the process tells the server that it has finalized. If something
/// came, the program has spoken for itself, or crashed before it could. False where the kernel has no way to wait for a
/// process that is not a child (before Linux 5.3).
bool leave_pmi_finalizer(int fd);

/// Whether leave_pmi_finalizer() can.
[[nodiscard]] bool can_leave_pmi_finalizer();

}  // namespace mn::launcher

/// Finalizing PMI for a program that does not do so itself.
#pragma once

namespace mn::launcher {

/// Leaves a process behind that passes on what this one, and what it becomes, and the PMI server at `fd` say to each
/// other. If the program ends without a word, and so does the script from which it came, they did not use PMI, and the
/// process tells the server that they have finalized. If it spoke, it has finalized by itself, or crashed before it
/// could, and the server sees the end of the connection as without mnlaunch. False where the kernel has no way to wait
/// for a process that is not a child (before Linux 5.3).
bool leave_pmi_finalizer(int fd);

/// Ends those that earlier processes of this rank have left at the connection `fd`: the next one does for all.
void dismiss_pmi_finalizers(int fd);

/// Whether leave_pmi_finalizer() can.
[[nodiscard]] bool can_leave_pmi_finalizer();

}  // namespace mn::launcher

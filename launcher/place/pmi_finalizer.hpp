/// Finalizing PMI for a program that never speaks PMI. Only PMI-1 launchers need it: Hydra ends the job of a process
/// that has spoken and ends without "finalize" (pmi.hpp).
#pragma once

namespace mn::launcher {

/// Forks a relay between the PMI server at `fd` and this process, later the program. If the program and the script
/// above it end without a word, the relay finalizes for both. If the program spoke, it has finalized itself or crashed,
/// and the server sees the end of the connection as without mnlaunch. False if the kernel cannot wait for a process
/// that is not a child (before Linux 5.3).
bool leave_pmi_finalizer(int fd);

/// Ends the relays of earlier processes of this rank at the connection `fd`: the next relay finalizes for all.
void dismiss_pmi_finalizers(int fd);

/// Whether leave_pmi_finalizer() works on this kernel.
[[nodiscard]] bool can_leave_pmi_finalizer();

}  // namespace mn::launcher

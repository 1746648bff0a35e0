/// The shared-memory store of PMIx 3 and 4 servers ("ds21") has one lock for each rank of the node. A client takes one
/// that is marked as free, and leaves the mark when it ends: the program, its rank's second client, would find none
/// ("getting local rank failed" in MPI_Init). The store of PMIx 5 has no such locks.
#pragma once

namespace mn::launcher {

/// Marks all locks of the stores that this process has mapped as free. Safe while other clients have theirs: two that
/// share a lock wait for each other, no more. False if there is a store whose locks are not as expected.
[[nodiscard]] bool free_locks_of_store();

}  // namespace mn::launcher

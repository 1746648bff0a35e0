/// Locks in the shared-memory store of PMIx 3 and 4 servers ("ds21"), one for each rank of the node. A client takes a
/// lock that is marked free, and does not free it when it ends: the program, its rank's second client, would find none
/// ("getting local rank failed" in MPI_Init). PMIx 5 has no such locks.
#pragma once

namespace mn::launcher {

/// Marks all locks of the mapped stores as free. Safe while clients hold locks: two clients with one lock wait for each
/// other, no more. False if a store's locks have an unexpected layout.
[[nodiscard]] bool free_locks_of_store();

}  // namespace mn::launcher

/// Reductions between the ranks of a node with several NUMA domains. Links between domains are slower than memory, and
/// every element crosses a link once in each direction. The ranks of the first domain sum a piece of their buffers,
/// each rank one slice of it. The next domain adds the buffers of its ranks to this sum, and so on. Then every domain
/// copies the sum of the last domain. At any time each domain works on a different piece.
///
/// Invariants:
/// 1. Domains are blocks of neighboring ranks, and add in their order: additions happen in rank order, and bits do not
///    depend on the placement of ranks. 16-bit floats, whose sums are rounded once, are not reduced by domains.
/// 2. A domain's partial sum lies in the buffer of its first rank. In step t, domain j works on piece t - j, and copies
///    piece t - d, with d domains; a barrier ends each step. No rank reads memory that another rank writes in the same
///    step.
///
/// Cost for B bytes on n ranks: every rank reads and writes B / n for each rank of its domain. One barrier for each
/// piece of 64 KiB per rank of the largest domain. B bytes cross each link each way, not the buffers of all ranks.
/// Source: S. Li, T. Hoefler, M. Snir, "NUMA-aware shared-memory collective communication for MPI", HPDC 2013.
#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include <mpi.h>

#include <mn/comm/mpi/reduce.hpp>
#include <mn/comm/node/node_barrier.hpp>

namespace mn {

/// Returns the borders of the domains: the first rank of each domain, then the number of ranks. `domain_of` has the
/// domain of each rank; a negative number means none. If a rank has no domain, or the ranks of a domain are not
/// neighbors, a single domain holds all ranks.
[[nodiscard]] std::vector<std::size_t> domain_borders(std::span<const int> domain_of);

/// Collective over `node`: domain_borders() of its ranks. The ranks' CPU masks tell their domains; in tests
/// MN_NUMA_DOMAIN does.
[[nodiscard]] std::vector<std::size_t> find_domain_borders(MPI_Comm node);

/// Whether reducing domain by domain gives the same bits as reduce_in_order().
[[nodiscard]] bool fits_domains(const Reduction& reduction);

/// Collective over the node: reduces `count` elements of all ranks' buffers in place. `buffers` has their addresses in
/// the calling process. On return the buffers of all ranks are final and visible.
void reduce_by_domains(std::span<std::byte* const> buffers, std::span<const std::size_t> borders, std::size_t rank,
                       std::size_t count, const Reduction& reduction, NodeBarrier& barrier);

}  // namespace mn

/// Reductions between the ranks of a node that has several NUMA domains, whose links are slower than the memory of
/// each: every element crosses such a link once in each direction, however many ranks there are.
///
/// NodeReducer calls them, on all ranks of a node at once. The ranks of the first domain sum a piece of their
/// buffers, each its slice; those of the second add theirs to that, and so on; what the last domain has, the others
/// copy. Meanwhile each domain works on another piece.
///
/// Invariants:
/// 1. Domains are blocks of neighboring ranks, and add in the order of these: the order of additions is that of ranks,
///    and bits do not depend on where ranks run. So 16-bit floats, whose sums are rounded once, do not go this way.
/// 2. What a domain hands on lies in its first rank's buffer. Domain j works on piece t - j in step t, and copies piece
///    t - d of d domains; a barrier ends each step. So nobody reads what another writes in the same step.
///
/// Cost for B bytes on n ranks in d domains: every rank reads and writes B / n for each rank of its domain, as without
/// domains, and one barrier for each 64 KiB of the largest domain's ranks. Between two domains B bytes each way, where
/// all ranks' buffers of the other domain would have to go.
/// Source: S. Li, T. Hoefler, M. Snir, "NUMA-aware shared-memory collective communication for MPI", HPDC 2013.
#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include <mpi.h>

#include <mn/comm/mpi/reduce.hpp>
#include <mn/comm/node/node_barrier.hpp>

namespace mn {

/// The first rank of each domain, and after them the number of ranks. `domain_of` has each rank's domain, below 0 where
/// it has none; one domain holds all if one has none, or if a domain's ranks are not neighbors. Pure.
[[nodiscard]] std::vector<std::size_t> domain_borders(std::span<const int> domain_of);

/// Collective over `node`: the borders by the CPUs that ranks may run on, or by MN_NUMA_DOMAIN, which puts a rank into
/// a domain for tests.
[[nodiscard]] std::vector<std::size_t> find_domain_borders(MPI_Comm node);

/// Whether a reduction keeps its bits when it is handed from domain to domain.
[[nodiscard]] bool fits_domains(const Reduction& reduction);

/// Collective over the node: reduces `count` elements of all ranks' `buffers`, as this process sees them, in place.
/// They are final on all ranks, and what others have written is visible behind it.
void reduce_by_domains(std::span<std::byte* const> buffers, std::span<const std::size_t> borders, std::size_t rank,
                       std::size_t count, const Reduction& reduction, NodeBarrier& barrier);

}  // namespace mn

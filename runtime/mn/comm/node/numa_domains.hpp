/// Reductions between the ranks of a node with several NUMA domains. Links between domains are slower than memory, so
/// every element crosses a link only once in each direction. The ranks of the first domain sum a piece of their
/// buffers, each rank one slice. The next domain adds the buffers of its ranks to this sum, and so on. Then every
/// domain copies the sum of the last domain. At any time each domain works on a different piece.
///
/// Invariants:
/// 1. Domains are blocks of neighboring ranks, and add their buffers in rank order, so the bits of a sum do not depend
///    on the placement of ranks. 16-bit floats are not reduced by domains, because their sums must be rounded only
///    once.
/// 2. A domain's sum lies in the buffer of its first rank. With d domains, in step t domain j adds to piece t - j and
///    copies the result of piece t - d. A barrier ends each step. No rank reads memory that another rank writes in the
///    same step.
///
/// Cost for B bytes on n ranks: every rank reads and writes B / n bytes for each rank of its domain. Each piece takes
/// one barrier; a piece has 64 KiB for each rank of the largest domain. Over each link B bytes travel in each
/// direction, instead of the buffers of all ranks. Source: S. Li, T. Hoefler, M. Snir, "NUMA-aware shared-memory
/// collective communication for MPI", HPDC 2013.
#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include <mpi.h>

#include <mn/comm/mpi/reduce.hpp>
#include <mn/comm/node/node_barrier.hpp>

namespace mn {

/// Returns the first rank of each NUMA domain, and then the number of ranks. `domain_of` has each rank's domain, or a
/// negative number. If any number is negative, or a domain's ranks are not neighbors, one domain holds all ranks.
[[nodiscard]] std::vector<std::size_t> domain_borders(std::span<const int> domain_of);

/// Collective over `node`: returns domain_borders() of its ranks, by their CPU masks or, in tests, by MN_NUMA_DOMAIN.
[[nodiscard]] std::vector<std::size_t> find_domain_borders(MPI_Comm node);

/// True if domains give the same bits as reduce_in_order(): not for sums of 16-bit floats, which would be rounded too
/// often.
[[nodiscard]] bool fits_domains(const Reduction& reduction);

/// Collective over the node: reduces `count` elements of all ranks' buffers, in place. `buffers` has their addresses in
/// the calling process. On return every rank's buffer holds the result.
void reduce_by_domains(std::span<std::byte* const> buffers, std::span<const std::size_t> borders, std::size_t rank,
                       std::size_t count, const Reduction& reduction, NodeBarrier& barrier);

}  // namespace mn

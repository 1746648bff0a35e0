/// Exchanges of parts between the ranks of one node through shared memory: allgather and reduce_scatter of NodeReducer.
///
/// If all ranks' `send` buffers lie in shared memory, each rank reads them where they lie. Otherwise parts go through
/// scratch memory, in rounds; a rank's scratch memory has two halves, and the rounds use the two in turn.
/// (1) All ranks must have passed a barrier since they wrote `send`. After the call no rank reads the `send` buffer of
///     another rank.
/// (2) A rank writes to a half of its scratch memory only after the other ranks have read it: a barrier lies between
///     two rounds, and each call begins after a barrier.
/// (3) Elements are reduced in rank order, whatever the memory.
///
/// Cost for parts of B bytes on n ranks. In shared memory: one barrier; an allgather reads and writes n B bytes, a
/// reduce_scatter reads n B bytes and writes B bytes. Through scratch memory: one barrier for each round, and a second
/// copy of the parts that other ranks need.
#pragma once

#include <cstddef>
#include <span>

#include <mn/comm/mpi/reduce.hpp>

namespace mn {

struct NodeRanks;

/// The buffers of the calling rank. The larger buffer (`recv` of an allgather, `send` of a reduce_scatter) has a part
/// for each rank; the smaller buffer may be the rank's part of it.
struct NodeParts {
  const std::byte* send;
  std::byte* recv;
  std::size_t count;    ///< elements of a part
  Reduction reduction;  ///< an allgather uses the dtype only

  [[nodiscard]] std::size_t bytes() const { return count * size_of(reduction.dtype); }
};

/// Collective over the node. `sent` has the addresses of all ranks' `send` in the calling process.
void allgather_shared(const NodeParts& parts, const NodeRanks& node, std::span<std::byte* const> sent);
void reduce_scatter_shared(const NodeParts& parts, const NodeRanks& node, std::span<std::byte* const> sent);
/// Collective over the node: the same through the node's scratch memory.
void allgather_copied(const NodeParts& parts, const NodeRanks& node);
void reduce_scatter_copied(const NodeParts& parts, const NodeRanks& node);

}  // namespace mn

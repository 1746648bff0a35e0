#include <mn/comm/node/node_parts.hpp>

#include <algorithm>
#include <cstring>
#include <vector>

#include <mn/comm/node/reduce_pieces.hpp>

namespace mn {
namespace {

/// Rank r's part of a larger buffer.
template <class Byte>
Byte* part_of(Byte* buffer, const NodeParts& parts, int r) {
  return buffer + static_cast<std::size_t>(r) * parts.bytes();
}

void copy_part(std::byte* to, const std::byte* from, std::size_t bytes) {
  if (to != from && bytes > 0) std::memcpy(to, from, bytes);
}

/// Calls act(r) for each other rank of the node. The ranks begin with different ones.
template <class Act>
void for_others(const NodeRanks& node, const Act& act) {
  for (int step = 1; step < node.ranks; ++step) act((node.rank + step) % node.ranks);
}

/// A round: the bytes [first, first + length) of each part.
struct Round {
  std::size_t first;
  std::size_t length;
  std::size_t half;  // offset of the half of scratch memory
  std::size_t room;  // bytes of scratch memory for each chunk
};

/// Calls act(round) for each round, so that half of a rank's scratch memory holds `chunks` chunks.
template <class Act>
void in_rounds(const NodeParts& parts, const NodeRanks& node, int chunks, const Act& act) {
  constexpr std::size_t kLineBytes = 64;
  const std::size_t room = node.scratch->bytes() / 2 / static_cast<std::size_t>(chunks) / kLineBytes * kLineBytes;
  const std::size_t half = room * static_cast<std::size_t>(chunks);
  for (std::size_t first = 0, k = 0; first < parts.bytes(); first += room, ++k) {
    act(Round{first, std::min(room, parts.bytes() - first), k % 2 * half, room});  // (2)
  }
}

}  // namespace

void allgather_shared(const NodeParts& parts, const NodeRanks& node, std::span<std::byte* const> sent) {
  copy_part(part_of(parts.recv, parts, node.rank), parts.send, parts.bytes());
  for_others(
      node, [&](int r) { copy_part(part_of(parts.recv, parts, r), sent[static_cast<std::size_t>(r)], parts.bytes()); });
  node.barrier->arrive_and_wait();  // (1)
}

void reduce_scatter_shared(const NodeParts& parts, const NodeRanks& node, std::span<std::byte* const> sent) {
  std::vector<const void*> inputs;
  for (const std::byte* each : sent) inputs.push_back(part_of(each, parts, node.rank));
  void* const output = parts.recv;
  reduce_in_order({&output, 1}, inputs, parts.count, parts.reduction);
  node.barrier->arrive_and_wait();  // (1)
}

void allgather_copied(const NodeParts& parts, const NodeRanks& node) {
  copy_part(part_of(parts.recv, parts, node.rank), parts.send, parts.bytes());
  in_rounds(parts, node, 1, [&](const Round& round) {
    copy_part(node.scratch->segment(node.rank) + round.half, parts.send + round.first, round.length);
    node.barrier->arrive_and_wait();
    for_others(node, [&](int r) {
      copy_part(part_of(parts.recv, parts, r) + round.first, node.scratch->segment(r) + round.half, round.length);
    });
  });
}

void reduce_scatter_copied(const NodeParts& parts, const NodeRanks& node) {
  in_rounds(parts, node, node.ranks, [&](const Round& round) {
    const auto chunk = [&](int from, int to) {
      return node.scratch->segment(from) + round.half + static_cast<std::size_t>(to) * round.room;
    };
    const auto own = [&](int to) { return part_of(parts.send, parts, to) + round.first; };
    for_others(node, [&](int to) { copy_part(chunk(node.rank, to), own(to), round.length); });
    node.barrier->arrive_and_wait();
    std::vector<const void*> inputs;
    for (int r = 0; r < node.ranks; ++r) inputs.push_back(r == node.rank ? own(r) : chunk(r, node.rank));
    void* const output = parts.recv + round.first;
    reduce_in_order({&output, 1}, inputs, round.length / size_of(parts.reduction.dtype), parts.reduction);
  });
}

}  // namespace mn

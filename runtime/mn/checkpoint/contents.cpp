#include <mn/checkpoint/contents.hpp>

#include <algorithm>
#include <functional>
#include <utility>

#include <mn/checkpoint/dtypes.hpp>
#include <mn/checkpoint/format/checkpoint_manifest.hpp>
#include <mn/comm/communicator.hpp>

namespace mn {
namespace {

/// This rank's number among the writers. The first rank of each node comes first, then the second of each node, …
std::uint64_t writer_number(const Topology& topology) {
  std::vector<int> seen(static_cast<std::size_t>(topology.inter_size), 0);
  std::vector<std::pair<int, int>> order;  // number within the node, rank
  for (int rank = 0; rank < topology.size; ++rank) order.emplace_back(seen[topology.nodes[rank]]++, rank);
  std::ranges::sort(order);
  const auto own = std::ranges::find(order, topology.rank, &std::pair<int, int>::second);
  return static_cast<std::uint64_t>(own - order.begin());
}

/// The first element of a tensor that begins at or after byte `position` of all tensors. An element belongs to the
/// writer whose share holds the element's first byte, and slices neither overlap nor leave gaps.
std::uint64_t element_at(std::uint64_t position, std::uint64_t tensor_begin, std::uint64_t wide, std::uint64_t count) {
  if (position <= tensor_begin) return 0;
  return std::min(count, (position - tensor_begin + wide - 1) / wide);
}

void add_shared(std::vector<CheckpointSlice>& slices, NamedTensors tensors, const Communicator& comm,
                std::uint64_t bytes_per_writer) {
  // Sorted by name, as readers go through tensors: a reader opens each shard once.
  std::ranges::sort(tensors, {}, &NamedTensors::value_type::first);
  std::uint64_t total = 0;
  for (const auto& [name, tensor] : tensors) total += tensor.nbytes();
  const std::uint64_t needed = std::max<std::uint64_t>((total + bytes_per_writer - 1) / bytes_per_writer, 1);
  const std::uint64_t writers = std::min(needed, static_cast<std::uint64_t>(comm.size()));
  const std::uint64_t own = writer_number(comm.topology());
  const std::uint64_t share = total / writers + 1;  // rounded up: the last share reaches the end
  std::uint64_t position = 0;
  for (const auto& [name, original] : tensors) {
    const at::Tensor tensor = as_pairs(original);
    const std::string dtype = safetensors_dtype(name, tensor.scalar_type());  // may throw: on every rank
    const auto count = static_cast<std::uint64_t>(tensor.numel());
    const std::uint64_t wide = tensor.element_size();
    const std::uint64_t begin = element_at(own * share, position, wide, count);
    const std::uint64_t end = element_at((own + 1) * share, position, wide, count);
    position += count * wide;
    const bool is_empty = count == 0 && own == 0;  // the manifest needs a piece of every tensor
    if (begin == end && !is_empty) continue;
    slices.push_back({{name, dtype, tensor.sizes().vec(), begin, end, original.is_complex()}, tensor});
  }
}

void add_whole(std::vector<CheckpointSlice>& slices, const std::string& name, const at::Tensor& original) {
  const at::Tensor tensor = as_pairs(original);
  const auto count = static_cast<std::uint64_t>(tensor.numel());
  slices.push_back(
      {{name, safetensors_dtype(name, tensor.scalar_type()), tensor.sizes().vec(), 0, count, original.is_complex()},
       tensor});
}

}  // namespace

std::vector<CheckpointSlice> slices_of_rank(const Communicator& comm, const Checkpoint& checkpoint,
                                            std::uint64_t bytes_per_writer) {
  std::vector<CheckpointSlice> slices;
  add_shared(slices, checkpoint.shared, comm, bytes_per_writer);
  if (comm.rank() == 0) {
    for (const auto& [name, tensor] : checkpoint.root) add_whole(slices, name, tensor);
  }
  for (const auto& [name, tensor] : checkpoint.own) {
    add_whole(slices, own_tensor_name(static_cast<std::size_t>(comm.rank()), name), tensor);
  }
  // Wide elements first: each part is aligned.
  std::ranges::stable_sort(slices, std::ranges::greater(),
                           [](const CheckpointSlice& slice) { return slice.tensor.element_size(); });
  return slices;
}

std::uint64_t bytes_of(const std::vector<CheckpointSlice>& slices) {
  std::uint64_t bytes = 0;
  for (const CheckpointSlice& slice : slices) bytes += slice.part.bytes();
  return bytes;
}

}  // namespace mn

#include <algorithm>
#include <cstring>
#include <utility>

#include <ATen/core/Tensor.h>

#include <mn/checkpoint/checkpoint.hpp>
#include <mn/checkpoint/dtypes.hpp>
#include <mn/checkpoint/format/commit.hpp>
#include <mn/comm/communicator.hpp>
#include <mn/core/file.hpp>

namespace mn {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;

/// (1): the number of this rank among the writers: first one rank of each node, then the next of each.
std::uint64_t writer_number(const Topology& topology) {
  std::vector<int> seen(static_cast<std::size_t>(topology.inter_size), 0);
  std::vector<std::pair<int, int>> order;  // number within the node, rank
  for (int rank = 0; rank < topology.size; ++rank) order.emplace_back(seen[topology.nodes[rank]]++, rank);
  std::ranges::sort(order);
  const auto own = std::ranges::find(order, topology.rank, &std::pair<int, int>::second);
  return static_cast<std::uint64_t>(own - order.begin());
}

/// The element of a tensor of `count` elements that begins at byte `position` of all tensors, or the first after it: an
/// element belongs to the writer in whose share its first byte lies, so slices neither overlap nor leave gaps.
std::uint64_t element_at(std::uint64_t position, std::uint64_t tensor_begin, std::uint64_t wide, std::uint64_t count) {
  if (position <= tensor_begin) return 0;
  return std::min(count, (position - tensor_begin + wide - 1) / wide);
}

/// On the host and contiguous; a view where it is that already.
at::Tensor host_slice(const at::Tensor& tensor, std::uint64_t begin, std::uint64_t end) {
  return tensor.detach()
      .reshape({-1})
      .slice(0, static_cast<std::int64_t>(begin), static_cast<std::int64_t>(end))
      .to(at::kCPU)
      .contiguous();
}

std::span<const std::byte> bytes_in(const at::Tensor& host) {
  return {static_cast<const std::byte*>(host.const_data_ptr()), host.nbytes()};
}

}  // namespace

CheckpointSave::CheckpointSave(Communicator& comm, fs::path path, const Checkpoint& checkpoint,
                               std::uint64_t bytes_per_writer)
    : comm_(comm), path_(std::move(path)), about_(checkpoint.about) {
  add_shared(checkpoint.shared, bytes_per_writer);
  if (comm_.rank() == 0) {
    for (const auto& [name, tensor] : checkpoint.root) add_whole(name, tensor);
  }
  for (const auto& [name, tensor] : checkpoint.own) {
    add_whole(own_tensor_name(static_cast<std::size_t>(comm_.rank()), name), tensor);
  }
  // Wide elements first: each part is aligned.
  std::ranges::stable_sort(slices_, std::ranges::greater(),
                           [](const Slice& slice) { return slice.tensor.element_size(); });
  begin();
}

void CheckpointSave::add_shared(NamedTensors tensors, std::uint64_t bytes_per_writer) {
  // By name, as a reader goes through them: it opens each shard once.
  std::ranges::sort(tensors, {}, &NamedTensors::value_type::first);
  std::uint64_t total = 0;
  for (const auto& [name, tensor] : tensors) total += tensor.nbytes();
  const std::uint64_t needed = std::max<std::uint64_t>((total + bytes_per_writer - 1) / bytes_per_writer, 1);
  const std::uint64_t writers = std::min(needed, static_cast<std::uint64_t>(comm_.size()));
  const std::uint64_t own = writer_number(comm_.topology());
  const std::uint64_t share = total / writers + 1;  // rounded up: the last share reaches the end
  std::uint64_t position = 0;
  for (const auto& [name, tensor] : tensors) {
    const std::string dtype = safetensors_dtype(name, tensor.scalar_type());  // on every rank, as it may throw
    const auto count = static_cast<std::uint64_t>(tensor.numel());
    const std::uint64_t wide = tensor.element_size();
    const std::uint64_t begin = element_at(own * share, position, wide, count);
    const std::uint64_t end = element_at((own + 1) * share, position, wide, count);
    position += count * wide;
    const bool is_empty = count == 0 && own == 0;  // the manifest needs a piece of every tensor
    if (begin == end && !is_empty) continue;
    slices_.push_back({{name, dtype, tensor.sizes().vec(), begin, end}, tensor});
  }
}

void CheckpointSave::add_whole(const std::string& name, const at::Tensor& tensor) {
  const auto count = static_cast<std::uint64_t>(tensor.numel());
  slices_.push_back({{name, safetensors_dtype(name, tensor.scalar_type()), tensor.sizes().vec(), 0, count}, tensor});
}

void CheckpointSave::begin() {
  // Rank 0 alone makes the folder; what it says of that, an error too, is the same on every rank.
  json said;
  if (comm_.rank() == 0) {
    try {
      said = {{"folder", begin_save(path_).string()}};
    } catch (const std::exception& error) {
      said = {{"error", error.what()}};
    }
  }
  said = comm_.bcast_obj(said);
  if (said.contains("error")) {
    throw SaveError("cannot save the checkpoint " + path_.string() + ": " + said["error"].get<std::string>());
  }
  folder_ = said["folder"].get<std::string>();
}

void CheckpointSave::copy_to(std::vector<std::byte>& memory) {
  std::uint64_t total = 0;
  for (const Slice& slice : slices_) total += slice.part.bytes();
  // The memory is kept from save to save: it grows, and is never given back.
  if (memory.size() < total) memory.resize(total);
  std::uint64_t at = 0;
  for (Slice& slice : slices_) {
    const at::Tensor host = host_slice(slice.tensor, slice.part.begin, slice.part.end);
    const auto bytes = bytes_in(host);
    if (!bytes.empty()) std::memcpy(memory.data() + at, bytes.data(), bytes.size());
    at += bytes.size();
    slice.tensor.reset();  // else a tensor that the program replaces would live on until the save ends
  }
  memory_ = &memory;
}

void CheckpointSave::write() noexcept {
  try {
    std::vector<ShardPart> parts;
    for (const Slice& slice : slices_) parts.push_back(slice.part);
    const auto rank = static_cast<std::size_t>(comm_.rank()), ranks = static_cast<std::size_t>(comm_.size());
    TensorShardWriter shard(folder_ / shard_name(rank, ranks), std::move(parts));
    std::uint64_t at = 0;
    for (const Slice& slice : slices_) {
      if (memory_ != nullptr) {
        shard.write(std::span(*memory_).subspan(at, slice.part.bytes()));
        at += slice.part.bytes();
      } else {
        const at::Tensor host = host_slice(slice.tensor, slice.part.begin, slice.part.end);
        shard.write(bytes_in(host));
      }
    }
    written_ = shard.finish();
    sync_folder(folder_);
  } catch (const std::exception& error) {  // (3): commit() throws it, on every rank
    written_ = {{"error", std::string(error.what()) + " (rank " + std::to_string(comm_.rank()) + ")"}};
  }
}

std::string CheckpointSave::commit_on_root(const std::vector<json>& shards) const {
  try {
    Manifest manifest{about_, {}, {}};
    for (const json& shard : shards) {
      // (3): one rank that could not write its shard is enough.
      if (shard.contains("error")) throw DataError(shard.at("error").get<std::string>());
      add_shard(manifest, shard);
    }
    complete(manifest);
    commit_save(folder_, path_, manifest);
    return "";
  } catch (const std::exception& error) {
    abandon_save(folder_);
    return error.what();
  }
}

void CheckpointSave::commit() {
  const std::vector<json> shards = comm_.gather_obj(written_);
  const std::string error = comm_.bcast_obj(comm_.rank() == 0 ? commit_on_root(shards) : std::string());
  if (!error.empty()) throw SaveError("cannot save the checkpoint " + path_.string() + ": " + error);
}

void save_checkpoint(Communicator& comm, const fs::path& path, const Checkpoint& checkpoint,
                     std::uint64_t bytes_per_writer) {
  CheckpointSave save(comm, path, checkpoint, bytes_per_writer);
  save.write();
  save.commit();
}

}  // namespace mn

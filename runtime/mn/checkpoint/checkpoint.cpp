#include <mn/checkpoint/checkpoint.hpp>

#include <algorithm>
#include <span>
#include <unordered_set>
#include <utility>

#include <ATen/ops/from_blob.h>
#include <c10/core/impl/VirtualGuardImpl.h>

#include <mn/checkpoint/copy_memory.hpp>
#include <mn/checkpoint/dtypes.hpp>
#include <mn/checkpoint/format/commit.hpp>
#include <mn/comm/communicator.hpp>
#include <mn/comm/on_root.hpp>
#include <mn/core/file.hpp>

namespace mn {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;

constexpr std::size_t kPieceBytes = std::size_t{4} << 20;  // fits the cache, so a write reads memory only once

std::string failure_text(const fs::path& path) { return "cannot save the checkpoint " + path.string() + ": "; }

/// Returns the elements of a slice as a contiguous tensor on the same device. Copies them only if they are not
/// contiguous.
at::Tensor flat_slice(const CheckpointSlice& slice) {
  const auto begin = static_cast<std::int64_t>(slice.part.begin - slice.begin);
  const auto end = static_cast<std::int64_t>(slice.part.end - slice.begin);
  return slice.tensor.detach().reshape({-1}).slice(0, begin, end).contiguous();
}

/// Returns the calling rank's number in the order in which ranks become writers: first the first rank of each node,
/// then the second rank of each node, and so on.
std::uint64_t writer_number(const Topology& topology) {
  std::vector<int> seen(static_cast<std::size_t>(topology.inter_size), 0);
  std::vector<std::pair<int, int>> order;  // number within the node, rank
  for (int rank = 0; rank < topology.size; ++rank) order.emplace_back(seen[topology.nodes[rank]]++, rank);
  std::ranges::sort(order);
  const auto own = std::ranges::find(order, topology.rank, &std::pair<int, int>::second);
  return static_cast<std::uint64_t>(own - order.begin());
}

/// All tensors together are cut into shares, one for each writer. A share begins at byte `position` of all tensors; a
/// tensor begins at byte `tensor_begin`. Returns the tensor's first element that lies in the share: the first element
/// whose first byte does.
std::uint64_t element_at(std::uint64_t position, std::uint64_t tensor_begin, std::uint64_t wide, std::uint64_t count) {
  if (position <= tensor_begin) return 0;
  return std::min(count, (position - tensor_begin + wide - 1) / wide);
}

void add_shared(std::vector<CheckpointSlice>& slices, NamedTensors tensors, const Communicator& comm,
                std::uint64_t bytes_per_writer) {
  // Tensors are written in the order of their names, because readers read in this order, and then open each shard only
  // once.
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
    const std::string dtype = safetensors_dtype(name, tensor.scalar_type());  // throws on every rank or on none
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
  for (const TensorPiece& piece : checkpoint.pieces) {
    const std::uint64_t end = piece.begin + static_cast<std::uint64_t>(piece.elements.numel());
    if (end == piece.begin) continue;
    const std::string dtype = safetensors_dtype(piece.name, piece.elements.scalar_type());
    slices.push_back({{piece.name, dtype, piece.shape, piece.begin, end}, piece.elements, piece.begin});
  }
  // Tensors with the widest elements come first in a shard, therefore each tensor begins at a multiple of its element's
  // size.
  std::ranges::stable_sort(slices, std::ranges::greater(),
                           [](const CheckpointSlice& slice) { return slice.tensor.element_size(); });
  return slices;
}

std::uint64_t bytes_of(const std::vector<CheckpointSlice>& slices) {
  std::uint64_t bytes = 0;
  for (const CheckpointSlice& slice : slices) bytes += slice.part.bytes();
  return bytes;
}

CheckpointSave::CheckpointSave(Communicator& comm, fs::path path, const Checkpoint& checkpoint,
                               std::uint64_t bytes_per_writer)
    : comm_(comm),
      path_(std::move(path)),
      about_(checkpoint.about),
      slices_(slices_of_rank(comm, checkpoint, bytes_per_writer)) {
  on_root<SaveError>(comm_, [this] {
    try {
      folder_ = begin_save(path_);
    } catch (const std::exception& failure) {
      throw SaveError(failure_text(path_) + failure.what());
    }
  });
  folder_ = comm_.bcast_obj(folder_.string());
  if (!checkpoint.objection.empty()) written_ = {{"refused", checkpoint.objection}};
}

/// Runs `work`, unless earlier work has failed. If `work` throws, finish() throws the error on every rank (invariant
/// 3).
void CheckpointSave::attempt(const std::function<void()>& work) noexcept {
  if (!written_.is_null()) return;
  try {
    work();
  } catch (const std::exception& error) {
    written_ = {{"error", std::string(error.what()) + " (rank " + std::to_string(comm_.rank()) + ")"}};
  }
}

void CheckpointSave::copy(CopyMemory& memory) noexcept {
  attempt([&] {
    memory.reserve(bytes_of(slices_), comm_.device());
    std::unordered_set<c10::Device> devices;
    std::span<std::byte> free = memory.bytes();
    for (CheckpointSlice& slice : slices_) {
      const at::Tensor from = flat_slice(slice);
      const at::Tensor to = at::from_blob(free.data(), from.sizes(), from.options().device(at::kCPU));
      to.copy_(from, /*non_blocking=*/true);
      if (!from.is_cpu()) devices.insert(from.device());
      free = free.subspan(from.nbytes());
      slice.tensor = to;
    }
    for (const c10::Device device : devices) {
      c10::impl::VirtualGuardImpl(device.type()).getStream(device).synchronize();
    }
    is_copied_ = true;
  });
}

void CheckpointSave::write(const std::function<void()>& pause) noexcept {
  attempt([&] {
    std::vector<ShardPart> parts;
    for (const CheckpointSlice& slice : slices_) parts.push_back(slice.part);
    const auto rank = static_cast<std::size_t>(comm_.rank()), ranks = static_cast<std::size_t>(comm_.size());
    TensorShardWriter shard(folder_ / checkpoint_shard_name(rank, ranks), std::move(parts));
    for (const CheckpointSlice& slice : slices_) {
      const at::Tensor host = is_copied_ ? slice.tensor : flat_slice(slice).to(at::kCPU);
      std::span rest(static_cast<const std::byte*>(host.const_data_ptr()), host.nbytes());
      do {
        const auto piece = rest.first(std::min(kPieceBytes, rest.size()));
        shard.write(piece);
        rest = rest.subspan(piece.size());
        if (pause) pause();
      } while (!rest.empty());
    }
    json description = shard.finish();
    sync_folder(folder_);
    written_ = std::move(description);
  });
}

void CheckpointSave::collect() { shards_ = comm_.gather_obj(written_); }

bool CheckpointSave::commit_on_root() noexcept {
  try {
    const auto failed = std::ranges::find_if(shards_, [](const json& shard) { return !shard.contains("parts"); });
    outcome_ = failed == shards_.end() ? json::object() : *failed;  // invariant 3: a failure on any rank ends the save
    if (outcome_.empty()) {
      Manifest manifest{about_, {}, {}};
      for (const json& shard : shards_) add_shard(manifest, shard);
      complete(manifest);
      commit_save(folder_, path_, manifest);
      return true;
    }
  } catch (const std::exception& error) {
    outcome_ = {{"error", error.what()}};
  }
  abandon_save(folder_);
  return false;
}

void CheckpointSave::finish() {
  outcome_ = comm_.bcast_obj(outcome_);
  if (outcome_.contains("refused")) throw SaveRefused(outcome_.at("refused").get<std::string>());
  if (outcome_.contains("error")) throw SaveError(failure_text(path_) + outcome_.at("error").get<std::string>());
}

void save_checkpoint(Communicator& comm, const fs::path& path, const Checkpoint& checkpoint,
                     std::uint64_t bytes_per_writer) {
  CheckpointSave save(comm, path, checkpoint, bytes_per_writer);
  save.write();
  save.collect();
  if (comm.rank() == 0) save.commit_on_root();
  save.finish();
}

}  // namespace mn

#include <algorithm>
#include <cstring>
#include <memory>
#include <utility>

#include <ATen/core/Tensor.h>
#include <sys/mman.h>
#include <unistd.h>

#include <mn/checkpoint/checkpoint.hpp>
#include <mn/checkpoint/dtypes.hpp>
#include <mn/checkpoint/format/commit.hpp>
#include <mn/comm/communicator.hpp>
#include <mn/core/file.hpp>

namespace mn {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;

constexpr std::size_t kPiece = std::size_t{4} << 20;  // bytes, which the checksum leaves in the cache for the write

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

/// Most of a first copy's time is page faults, one by one. Kernels without this do that; huge pages take longer.
void fault_in(ByteBuffer& memory) {
  constexpr int kPopulateWrite = 23;  // MADV_POPULATE_WRITE of Linux 5.14, which older headers lack
  const std::size_t page = static_cast<std::size_t>(::sysconf(_SC_PAGESIZE));
  void* begin = memory.data();
  std::size_t bytes = memory.size();
  if (std::align(page, page, begin, bytes) != nullptr) ::madvise(begin, bytes / page * page, kPopulateWrite);
}

std::span<const std::byte> bytes_in(const at::Tensor& host) {
  return {static_cast<const std::byte*>(host.const_data_ptr()), host.nbytes()};
}

}  // namespace

std::uint32_t version_of(const at::Tensor& tensor) {
  const auto& versions = tensor.unsafeGetTensorImpl()->version_counter();
  return versions.enabled() ? versions.current_version() : 0;  // tensors of inference mode have none
}

CheckpointSave::CheckpointSave(Communicator& comm, fs::path path, const Checkpoint& checkpoint,
                               std::uint64_t bytes_per_writer)
    : comm_(comm), path_(std::move(path)), about_(checkpoint.about), objection_(checkpoint.objection) {
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
  for (const Slice& slice : slices_) bytes_ += slice.part.bytes();
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

/// (3): what fails becomes an error on every rank, in finish(); until then nothing else is done.
void CheckpointSave::attempt(const std::function<void()>& work) noexcept {
  if (!written_.is_null()) return;
  try {
    work();
  } catch (const SaveRefused& error) {
    written_ = {{"refused", error.what()}};
  } catch (const std::exception& error) {
    written_ = {{"error", std::string(error.what()) + " (rank " + std::to_string(comm_.rank()) + ")"}};
    const auto* own = dynamic_cast<const SaveError*>(&error);
    written_["changed"] = own != nullptr && own->has_changed();
  }
}

void CheckpointSave::ask_for_objection() {
  if (!objection_) return;
  const std::string said = std::exchange(objection_, nullptr)();
  if (!said.empty()) throw SaveRefused(said);
}

void CheckpointSave::begin_copy(ByteBuffer& memory) noexcept {
  attempt([&] {
    if (memory.size() < bytes_) {  // it is kept from save to save
      memory.clear();
      memory.resize(bytes_);
      is_new_ = true;
    }
    memory_ = &memory;
    std::uint64_t to = 0;
    for (Slice& slice : slices_) {
      slice.version = version_of(slice.tensor);
      if (!slice.tensor.is_cpu()) copy(slice, to);
      to += slice.part.bytes();
    }
  });
}

void CheckpointSave::finish_copy() noexcept {
  attempt([&] {
    ask_for_objection();
    if (is_new_) fault_in(*memory_);
    std::uint64_t to = 0;
    for (Slice& slice : slices_) {
      if (slice.tensor.defined()) copy(slice, to);
      to += slice.part.bytes();
    }
  });
}

void CheckpointSave::copy(Slice& slice, std::uint64_t to) {
  const at::Tensor host = host_slice(slice.tensor, slice.part.begin, slice.part.end);
  const auto bytes = bytes_in(host);
  if (!bytes.empty()) std::memcpy(memory_->data() + to, bytes.data(), bytes.size());
  if (version_of(slice.tensor) != slice.version) {
    throw SaveError(slice.part.tensor +
                        " has changed while it was copied: the next save copies before the loss is computed; call "
                        "Trainer::finish_copy() before changes outside of steps",
                    true);
  }
  slice.tensor.reset();  // else a tensor that the program replaces would live on until the save ends
}

bool CheckpointSave::write(const std::atomic<bool>& hand_over, const std::function<void(double)>& pause) noexcept {
  attempt([&] {
    ask_for_objection();
    const auto rank = static_cast<std::size_t>(comm_.rank()), ranks = static_cast<std::size_t>(comm_.size());
    if (!shard_) {
      std::vector<ShardPart> parts;
      for (const Slice& slice : slices_) parts.push_back(slice.part);
      shard_.emplace(folder_ / shard_name(rank, ranks), std::move(parts));
    }
    while (next_ < slices_.size() && !hand_over) {
      const std::uint64_t bytes = write_piece();
      if (pause) pause(static_cast<double>(bytes) / static_cast<double>(std::max<std::uint64_t>(bytes_, 1)));
    }
    if (next_ < slices_.size()) return;
    json description = shard_->finish();
    sync_folder(folder_);
    written_ = std::move(description);
  });
  return !written_.is_null();
}

std::uint64_t CheckpointSave::write_piece() {
  const Slice& slice = slices_[next_];
  if (memory_ == nullptr && !host_.defined()) {
    host_ = host_slice(slice.tensor, slice.part.begin, slice.part.end);
  }
  const auto all = memory_ != nullptr ? std::span<const std::byte>(*memory_).subspan(next_offset_, slice.part.bytes())
                                      : bytes_in(host_);
  const auto rest = all.subspan(written_of_next_);
  const auto piece = rest.first(std::min(kPiece, rest.size()));
  shard_->write(piece);
  written_of_next_ += piece.size();
  if (written_of_next_ < all.size()) return piece.size();
  host_.reset();
  written_of_next_ = 0;
  next_offset_ += all.size();
  ++next_;
  return piece.size();
}

void CheckpointSave::collect() { shards_ = comm_.gather_obj(written_); }

bool CheckpointSave::commit_on_root() noexcept {
  outcome_ = json::object();
  try {
    Manifest manifest{about_, {}, {}};
    for (const json& shard : shards_) {
      // (3): one rank that could not write its shard is enough.
      if (shard.contains("refused")) throw SaveRefused(shard.at("refused").get<std::string>());
      if (shard.contains("error")) throw SaveError(shard.at("error").get<std::string>(), shard.at("changed"));
      add_shard(manifest, shard);
    }
    complete(manifest);
    commit_save(folder_, path_, manifest);
    return true;
  } catch (const SaveRefused& error) {
    outcome_["refused"] = error.what();
  } catch (const SaveError& error) {
    outcome_ = {{"error", error.what()}, {"changed", error.has_changed()}};
  } catch (const std::exception& error) {
    outcome_ = {{"error", error.what()}, {"changed", false}};
  }
  abandon_save(folder_);
  return false;
}

void CheckpointSave::finish() {
  outcome_ = comm_.bcast_obj(outcome_);
  if (outcome_.contains("refused")) throw SaveRefused(outcome_.at("refused").get<std::string>());
  if (outcome_.contains("error")) {
    throw SaveError("cannot save the checkpoint " + path_.string() + ": " + outcome_.at("error").get<std::string>(),
                    outcome_.at("changed"));
  }
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

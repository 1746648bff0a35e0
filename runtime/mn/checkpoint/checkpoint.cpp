#include <mn/checkpoint/checkpoint.hpp>

#include <algorithm>
#include <cassert>
#include <cstring>
#include <unordered_set>
#include <utility>

#include <ATen/core/Tensor.h>
#include <ATen/ops/from_blob.h>
#include <c10/core/impl/VirtualGuardImpl.h>

#include <mn/checkpoint/format/commit.hpp>
#include <mn/comm/communicator.hpp>
#include <mn/core/file.hpp>

namespace mn {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;

constexpr std::size_t kPieceBytes = std::size_t{4} << 20;  // the write finds in the cache what the checksum has read

/// The slice's elements, contiguous, on the tensor's device; a view if they are contiguous already.
at::Tensor flat_slice(const CheckpointSlice& slice) {
  const auto begin = static_cast<std::int64_t>(slice.part.begin), end = static_cast<std::int64_t>(slice.part.end);
  return slice.tensor.detach().reshape({-1}).slice(0, begin, end).contiguous();
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
    : comm_(comm),
      path_(std::move(path)),
      about_(checkpoint.about),
      slices_(slices_of_rank(comm, checkpoint, bytes_per_writer)),
      bytes_(bytes_of(slices_)),
      objection_(checkpoint.objection) {
  begin();
}

void CheckpointSave::begin() {
  json outcome;
  if (comm_.rank() == 0) {
    try {
      outcome = {{"folder", begin_save(path_).string()}};
    } catch (const std::exception& error) {
      outcome = {{"error", error.what()}};
    }
  }
  outcome = comm_.bcast_obj(outcome);
  if (outcome.contains("error")) {
    throw SaveError("cannot save the checkpoint " + path_.string() + ": " + outcome["error"].get<std::string>());
  }
  folder_ = outcome["folder"].get<std::string>();
}

/// (3): keeps the error of `work` until finish() throws it on every rank. After an error, further work is skipped.
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
  const std::string objection = std::exchange(objection_, nullptr)();
  if (!objection.empty()) throw SaveRefused(objection);
}

void CheckpointSave::copy_first(CopyMemory& memory) noexcept {
  attempt([&] {
    memory.reserve(bytes_, comm_.device());
    memory_ = &memory;
    std::unordered_set<c10::Device> devices;
    std::uint64_t to = 0;
    for (CheckpointSlice& slice : slices_) {
      slice.version = version_of(slice.tensor);
      if (!slice.tensor.is_cpu()) devices.insert(slice.tensor.device());
      if (!slice.tensor.is_cpu() || slice.at_once) copy(slice, to);
      to += slice.part.bytes();
    }
    for (const c10::Device device : devices) {
      c10::impl::VirtualGuardImpl(device.type()).getStream(device).synchronize();
    }
  });
}

void CheckpointSave::copy_rest() noexcept {
  attempt([&] {
    ask_for_objection();
    while (memory_->touch()) {
    }
    std::uint64_t to = 0;
    for (CheckpointSlice& slice : slices_) {
      if (slice.tensor.defined()) copy(slice, to);
      to += slice.part.bytes();
    }
  });
}

void CheckpointSave::copy(CheckpointSlice& slice, std::uint64_t to) {
  const at::Tensor from = flat_slice(slice);
  assert(to + from.nbytes() <= memory_->bytes().size());
  std::byte* const memory = memory_->bytes().data() + to;
  if (!from.is_cpu()) {
    at::from_blob(memory, from.sizes(), at::TensorOptions(from.scalar_type())).copy_(from, /*non_blocking=*/true);
  } else if (from.nbytes() > 0) {
    std::memcpy(memory, from.const_data_ptr(), from.nbytes());
  }
  if (version_of(slice.tensor) != slice.version) {
    throw SaveError(slice.part.tensor +
                        " has changed while it was copied: the next save copies before the loss is computed; call "
                        "Checkpointer::finish_copy() before changes outside of steps",
                    true);
  }
  slice.tensor.reset();  // frees the tensor if the program replaces it before the save ends
}

bool CheckpointSave::write(const std::atomic<bool>& hand_over, const std::function<void(double)>& pause) noexcept {
  attempt([&] {
    ask_for_objection();
    const auto rank = static_cast<std::size_t>(comm_.rank()), ranks = static_cast<std::size_t>(comm_.size());
    if (!shard_) {
      std::vector<ShardPart> parts;
      for (const CheckpointSlice& slice : slices_) parts.push_back(slice.part);
      shard_.emplace(folder_ / checkpoint_shard_name(rank, ranks), std::move(parts));
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
  const CheckpointSlice& slice = slices_[next_];
  if (memory_ == nullptr && !host_.defined()) host_ = flat_slice(slice).to(at::kCPU);
  const std::span<const std::byte> all =
      memory_ != nullptr ? memory_->bytes().subspan(next_offset_, slice.part.bytes()) : bytes_in(host_);
  const auto rest = all.subspan(written_of_next_);
  const auto piece = rest.first(std::min(kPieceBytes, rest.size()));
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
      // (3)
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

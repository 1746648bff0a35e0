#include <mn/checkpoint/checkpoint_reader.hpp>

#include <optional>
#include <utility>

#include <ATen/ops/empty.h>

#include <mn/checkpoint/format/checkpoint_folder.hpp>
#include <mn/comm/communicator.hpp>
#include <mn/comm/on_root.hpp>
#include <mn/core/error.hpp>
#include <mn/core/log.hpp>
#include <mn/sharding/pieces.hpp>
#include <mn/tensor/tensor.hpp>

namespace mn {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;

std::span<std::byte> writable_bytes(at::Tensor& host) {
  return {static_cast<std::byte*>(host.mutable_data_ptr()), host.nbytes()};
}

/// How bad an error is; the worst kind comes last. If the user asked for "auto", the newest undamaged checkpoint, an
/// older checkpoint is tried only after kDamage.
enum class Harm { kNone, kDamage, kVersion, kStorage };

/// An error on one rank. `harm` is kNone if the rank met no error.
struct Trouble {
  Harm harm = Harm::kNone;
  std::string text;
};

/// Thrown on all ranks if a checkpoint cannot be read although it may be undamaged, because another version of mn has
/// written it or the storage fails.
class CannotRead : public DataError {
 public:
  explicit CannotRead(const std::string& what) : DataError(what, true) {}
};

/// Runs `work`. If `work` throws, returns the exception as a Trouble.
template <class Work>
Trouble trouble_of(Work work) {
  try {
    work();
  } catch (const VersionError& error) {
    return {Harm::kVersion, error.what()};
  } catch (const FileError& error) {
    return {is_of_storage(error) ? Harm::kStorage : Harm::kDamage, error.what()};
  } catch (const DataError& error) {
    return {Harm::kDamage, error.what()};
  } catch (const std::exception& error) {  // for example, there was not enough memory
    return {Harm::kStorage, error.what()};
  }
  return {};
}

/// Collective: if any rank met an error, every rank throws the worst error among all ranks.
void throw_worst(Communicator& comm, const Trouble& own) {
  Trouble worst;
  std::size_t rank = 0;
  const std::vector<json> all = comm.allgather_obj(json::array({own.harm, own.text}));
  for (std::size_t i = 0; i < all.size(); ++i) {
    const auto harm = all[i].at(0).get<Harm>();
    if (harm <= worst.harm) continue;
    worst = {harm, all[i].at(1).get<std::string>()};
    rank = i;
  }
  if (worst.harm == Harm::kNone) return;
  if (worst.harm == Harm::kDamage) throw DataError(worst.text, true);
  if (worst.harm == Harm::kVersion) throw CannotRead(worst.text);
  throw CannotRead(
      worst.text + " (rank " + std::to_string(rank) +
      "): the checkpoint may be whole, so training neither goes on from an older one nor replaces it; start "
      "again when the storage answers, or name another checkpoint");
}

std::vector<fs::path> candidates(Communicator& comm, const std::string& from, const fs::path& out) {
  json names;
  const auto find = [&] {
    names = json::array();
    if (from != "auto") return names.push_back(from);
    for (const fs::path& path : find_checkpoints(out)) names.push_back(path.string());
  };
  throw_worst(comm, comm.rank() == 0 ? trouble_of([&] { with_retries(find); }) : Trouble());
  names = comm.bcast_obj(names);
  return {names.begin(), names.end()};
}

/// Throws if `path` is a file. Also throws if `path` is an output folder with checkpoints, because only the user can
/// choose one of them.
void reject_others(const fs::path& path) {
  if (fs::is_regular_file(path)) {
    throw DataError(path.string() + " is a file, not a checkpoint, which is a folder; --initmodel takes weights");
  }
  const std::vector<fs::path> found = find_checkpoints(path);
  if (found.empty()) return;
  throw DataError(path.string() + " is not a checkpoint, but holds some: name one, such as " + found.front().string());
}

/// Collective: opens the checkpoint in a folder. Rank 0 reads the manifest for all ranks, and every rank parses it.
SavedCheckpoint open_folder(Communicator& comm, const fs::path& path) {
  std::string text;
  const auto read = [&] {
    if (!with_retries([&] { return is_committed(path); })) reject_others(path);
    text = SavedCheckpoint::read_text(path);
  };
  throw_worst(comm, comm.rank() == 0 ? trouble_of(read) : Trouble());
  text = comm.bcast_obj(text);
  std::optional<SavedCheckpoint> folder;
  throw_worst(comm, trouble_of([&] { folder.emplace(path, text); }));
  return *std::move(folder);
}

}  // namespace

std::unique_ptr<CheckpointReader> CheckpointReader::open(Communicator& comm, const std::string& from,
                                                         const fs::path& out) {
  const std::vector<fs::path> paths = candidates(comm, from, out);
  for (const fs::path& path : paths) {
    try {
      std::unique_ptr<CheckpointReader> reader(new CheckpointReader(comm, open_folder(comm, path)));
      reader->check();
      if (comm.rank() == 0) log_info("resuming from " + path.string());
      return reader;
    } catch (const CannotRead&) {
      throw;
    } catch (const DataError& error) {
      if (from != "auto") throw;  // with "auto", all ranks have caught the same error and try an older checkpoint
      if (comm.rank() == 0) log_warning(std::string(error.what()) + "; trying the one before");
    }
  }
  if (!paths.empty()) {
    throw DataError("none of the " + std::to_string(paths.size()) + " checkpoints in " + out.string() +
                        " can be read: training does not start at the beginning beside them; give another output "
                        "folder (--out), or start without --resume",
                    true);
  }
  if (comm.rank() == 0) log_info("no checkpoint in " + out.string() + ": training starts at the beginning");
  return nullptr;
}

CheckpointReader::CheckpointReader(Communicator& comm, SavedCheckpoint folder)
    : comm_(comm), folder_(std::move(folder)) {}

/// Collective. Each rank checks its share of the shards (invariant 1). Then every rank throws the worst error of all
/// ranks, if there was one.
void CheckpointReader::check() {
  throw_worst(comm_, trouble_of([&] {
                for (auto shard = static_cast<std::size_t>(comm_.rank()); shard < folder_.ranks();
                     shard += comm_.size()) {
                  folder_.check_shard(shard);
                }
              }));
}

TensorForms CheckpointReader::shared(const std::string& prefix) const {
  TensorForms forms;
  for (const auto& [name, tensor] : folder_.manifest().tensors) {
    if (name.starts_with(prefix)) forms.emplace(name.substr(prefix.size()), form_of(tensor));
  }
  return forms;
}

/// Fills `target` from the shared tensor `name`, or from its elements that begin at `begin`.
void CheckpointReader::fill(const std::string& name, at::Tensor target, std::optional<std::uint64_t> begin) {
  const bool is_direct = target.is_cpu() && target.is_contiguous();
  at::Tensor host = is_direct ? target : at::empty(target.sizes(), target.options().device(at::kCPU));
  begin ? folder_.read_range(name, *begin, writable_bytes(host)) : folder_.read(name, writable_bytes(host));
  if (!is_direct) target.copy_(host);
}

void CheckpointReader::read(const std::string& prefix, const NamedTensors& tensors) {
  throw_worst(comm_, trouble_of([&] {
                for (const auto& [name, tensor] : tensors) {
                  const auto piece = find_piece(tensor);
                  if (!piece || piece->keeps) fill(prefix + name, tensor.detach(), std::nullopt);
                  if (piece && !piece->elements.is_alias_of(tensor)) {
                    fill(prefix + name, piece->elements.detach(), static_cast<std::uint64_t>(piece->begin));
                  }
                }
              }));
}

void CheckpointReader::read(const std::string& prefix, const std::vector<TensorPiece>& pieces) {
  throw_worst(comm_, trouble_of([&] {
                for (const TensorPiece& piece : pieces) fill(prefix + piece.name, piece.elements, piece.begin);
              }));
}

NamedTensors CheckpointReader::own() {
  NamedTensors tensors;
  if (ranks() != comm_.size()) return tensors;  // invariant 3: a different number of ranks saved it
  const std::string prefix = own_tensor_name(static_cast<std::size_t>(comm_.rank()), "");
  for (const auto& [name, form] : shared(prefix)) {
    at::Tensor tensor = at::empty(form.shape, form.dtype);
    folder_.read(prefix + name, writable_bytes(tensor));
    tensors.emplace_back(name, std::move(tensor));
  }
  return tensors;
}

}  // namespace mn

#include <optional>
#include <utility>

#include <ATen/ops/empty.h>

#include <mn/checkpoint/checkpoint_reader.hpp>
#include <mn/checkpoint/dtypes.hpp>
#include <mn/checkpoint/format/checkpoint_folder.hpp>
#include <mn/comm/communicator.hpp>
#include <mn/comm/on_root.hpp>
#include <mn/core/error.hpp>
#include <mn/core/log.hpp>
#include <mn/tensor/tensor.hpp>

namespace mn {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;

std::span<std::byte> writable_bytes(at::Tensor& host) {
  return {static_cast<std::byte*>(host.mutable_data_ptr()), host.nbytes()};
}

/// How bad an error is: only from damage does the search for a whole checkpoint go on.
enum class Kind { kNone, kDamage, kVersion, kStorage };

/// What a rank found; without a text nothing is wrong.
struct Trouble {
  Kind kind = Kind::kNone;
  std::string text;
};

/// A checkpoint that may be whole, but cannot be read, or not by this version; every rank throws it.
class CannotRead : public DataError {
 public:
  explicit CannotRead(const std::string& what) : DataError(what, true) {}
};

/// What `work` throws.
template <class Work>
Trouble trouble_of(Work work) {
  try {
    work();
  } catch (const VersionError& error) {
    return {Kind::kVersion, error.what()};
  } catch (const FileError& error) {
    return {is_of_storage(error) ? Kind::kStorage : Kind::kDamage, error.what()};
  } catch (const DataError& error) {
    return {Kind::kDamage, error.what()};
  } catch (const std::exception& error) {  // no memory, for example
    return {Kind::kStorage, error.what()};
  }
  return {};
}

/// The worst of what the ranks found becomes every rank's error.
void agree(Communicator& comm, const Trouble& own) {
  Trouble worst;
  std::size_t rank = 0;
  const std::vector<json> all = comm.allgather_obj(json::array({own.kind, own.text}));
  for (std::size_t i = 0; i < all.size(); ++i) {
    const auto kind = all[i].at(0).get<Kind>();
    if (kind <= worst.kind) continue;
    worst = {kind, all[i].at(1).get<std::string>()};
    rank = i;
  }
  if (worst.kind == Kind::kNone) return;
  if (worst.kind == Kind::kDamage) throw DataError(worst.text, true);
  if (worst.kind == Kind::kVersion) throw CannotRead(worst.text);
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
  agree(comm, comm.rank() == 0 ? trouble_of([&] { with_retries(find); }) : Trouble());
  names = comm.bcast_obj(names);
  return {names.begin(), names.end()};
}

/// (2): false on all ranks of the node if the one that reads could not.
bool read_on_node(SavedCheckpoint& folder, Communicator* node, const std::string& name, at::Tensor& host,
                  Trouble& trouble) {
  if (node == nullptr || node->rank() == 0) trouble = trouble_of([&] { folder.read(name, writable_bytes(host)); });
  if (node == nullptr) return trouble.kind == Kind::kNone;
  std::int64_t failed = trouble.kind == Kind::kNone ? 0 : 1;
  node->bcast(std::span(&failed, 1));
  if (failed == 0 && host.numel() > 0) node->bcast(writable_bytes(host));
  return failed == 0;
}

/// What else a user may name. Of the checkpoints of an output folder, only the user knows which is wanted.
void refuse_others(const fs::path& path) {
  if (fs::is_regular_file(path)) {
    throw DataError(path.string() + " is a file, not a checkpoint, which is a folder; --initmodel takes weights");
  }
  const std::vector<fs::path> found = find_checkpoints(path);
  if (found.empty()) return;
  throw DataError(path.string() + " is not a checkpoint, but holds some: name one, such as " + found.front().string());
}

/// Rank 0 reads the manifest; every rank parses it.
SavedCheckpoint open_folder(Communicator& comm, const fs::path& path) {
  std::string text;
  const auto read = [&] {
    if (!with_retries([&] { return is_committed(path); })) refuse_others(path);
    text = SavedCheckpoint::read_text(path);
  };
  agree(comm, comm.rank() == 0 ? trouble_of(read) : Trouble());
  text = comm.bcast_obj(text);
  std::optional<SavedCheckpoint> folder;
  agree(comm, trouble_of([&] { folder.emplace(path, text); }));
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
      if (from != "auto") throw;  // else all ranks, which threw the same, try the same one next
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

CheckpointReader::~CheckpointReader() = default;

/// (1): the ranks check the shards by turns, and agree on what they found before anything is handed out.
void CheckpointReader::check() {
  agree(comm_, trouble_of([&] {
          for (auto shard = static_cast<std::size_t>(comm_.rank()); shard < folder_.ranks(); shard += comm_.size()) {
            folder_.check_shard(shard);
          }
        }));
  node_ = comm_.split(comm_.inter_rank(), comm_.intra_rank());
  if (node_->size() == 1) node_.reset();
}

TensorForms CheckpointReader::shared(const std::string& prefix) const {
  TensorForms forms;
  for (const auto& [name, tensor] : folder_.manifest().tensors) {
    if (name.starts_with(prefix)) forms.emplace(name.substr(prefix.size()), form_of(tensor));
  }
  return forms;
}

void CheckpointReader::read(const std::string& prefix, const NamedTensors& tensors) {
  Trouble trouble;
  for (const auto& [name, tensor] : tensors) {
    at::Tensor target = tensor.detach();
    const bool straight = target.is_cpu() && target.is_contiguous();
    at::Tensor host = straight ? target : at::empty(target.sizes(), target.options().device(at::kCPU));
    // Not thrown yet: other nodes may still read, and agree() needs every rank.
    if (!read_on_node(folder_, node_.get(), prefix + name, host, trouble)) break;
    if (!straight) target.copy_(host);
  }
  agree(comm_, trouble);
}

NamedTensors CheckpointReader::own() {
  NamedTensors tensors;
  if (ranks() != comm_.size()) return tensors;  // (3): there is no rank whose tensors these would be
  const std::string prefix = own_tensor_name(static_cast<std::size_t>(comm_.rank()), "");
  for (const auto& [name, form] : shared(prefix)) {
    at::Tensor tensor = at::empty(form.shape, form.dtype);
    folder_.read(prefix + name, writable_bytes(tensor));
    tensors.emplace_back(name, std::move(tensor));
  }
  return tensors;
}

}  // namespace mn

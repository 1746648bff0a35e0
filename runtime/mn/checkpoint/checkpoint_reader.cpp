#include <utility>

#include <ATen/ops/empty.h>

#include <mn/checkpoint/checkpoint_reader.hpp>
#include <mn/checkpoint/dtypes.hpp>
#include <mn/checkpoint/format/checkpoint_file.hpp>
#include <mn/checkpoint/format/checkpoint_folder.hpp>
#include <mn/checkpoint/safetensors.hpp>
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

/// What `work` throws, as text; empty if it does not.
template <class Work>
std::string error_of(Work work) {
  try {
    work();
  } catch (const std::exception& error) {
    return error.what();
  }
  return "";
}

std::vector<fs::path> candidates(Communicator& comm, const std::string& from, const fs::path& out) {
  json names = json::array();
  const auto find = [&] {
    if (from != "auto") return names.push_back(from);
    for (const fs::path& path : find_checkpoints(out)) names.push_back(path.string());
  };
  on_root<DataError>(comm, find, true);
  names = comm.bcast_obj(names);
  return {names.begin(), names.end()};
}

/// Which of its checkpoints is wanted, only the user knows.
void refuse_output_folder(const fs::path& path) {
  if (!fs::is_directory(path)) return;
  const std::vector<fs::path> found = find_checkpoints(path);
  if (found.empty()) return;
  throw DataError(path.string() + " is not a checkpoint, but holds some: name one, such as " + found.front().string());
}

}  // namespace

std::unique_ptr<CheckpointReader> CheckpointReader::open(Communicator& comm, const std::string& from,
                                                         const fs::path& out) {
  const std::vector<fs::path> paths = candidates(comm, from, out);
  for (const fs::path& path : paths) {
    try {
      std::unique_ptr<CheckpointReader> reader(new CheckpointReader(comm, path));
      if (comm.rank() == 0) log_info("resuming from " + path.string());
      return reader;
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

CheckpointReader::CheckpointReader(Communicator& comm, const fs::path& path) : comm_(comm) {
  json said = json::object();
  if (comm_.rank() == 0) {
    said["error"] = error_of([&] {
      said["is_file"] = fs::is_regular_file(path);
      if (!is_committed(path)) refuse_output_folder(path);
      if (!said["is_file"].get<bool>()) said["text"] = SavedCheckpoint::read_text(path);
    });
  }
  said = comm_.bcast_obj(said);
  agree(said.at("error").get<std::string>());
  if (said.at("is_file").get<bool>()) {
    open_file(path);
    return;
  }
  const std::string text = said.at("text").get<std::string>();
  agree(error_of([&] { folder_.emplace(path, text); }));
  check_folder();
}

CheckpointReader::~CheckpointReader() = default;

/// (1): the ranks check the shards by turns, and agree on what they found before anything is handed out.
void CheckpointReader::check_folder() {
  const auto check = [&] {
    for (auto shard = static_cast<std::size_t>(comm_.rank()); shard < folder_->ranks(); shard += comm_.size()) {
      folder_->check_shard(shard);
    }
  };
  agree(error_of(check));
  about_ = folder_->manifest().about;
  ranks_ = static_cast<std::int64_t>(folder_->ranks());
  node_ = comm_.split(comm_.inter_rank(), comm_.intra_rank());
  if (node_->size() == 1) node_.reset();
}

/// Earlier versions kept a rank's own tensors under the names that they have now.
void CheckpointReader::open_file(const fs::path& path) {
  const auto read_all = [&] {
    const CheckpointFile file(path);
    file.check();
    const auto add = [&](const std::string& prefix, const char* section, const char* suffix = "") {
      for (auto& [name, tensor] : from_safetensors(file.read(section), path.string())) {
        file_shared_.emplace(prefix + name + suffix, tensor);
      }
    };
    add("model/", "model");
    add("optimizer/", "optimizer", "/archive");
    add("extensions/", "extensions");
    about_ = file.about();
    ranks_ = file.ranks();
    if (ranks_ == comm_.size()) file_own_ = from_safetensors(file.read(rank_section(comm_.rank())), path.string());
  };
  agree(error_of(read_all));
}

/// The first rank's error becomes every rank's.
void CheckpointReader::agree(const std::string& error) const {
  for (const std::string& theirs : comm_.allgather_obj(error)) {
    if (!theirs.empty()) throw DataError(theirs, true);
  }
}

TensorForms CheckpointReader::shared(const std::string& prefix) const {
  TensorForms forms;
  if (folder_) {
    for (const auto& [name, tensor] : folder_->manifest().tensors) {
      if (name.starts_with(prefix)) {
        forms.emplace(name.substr(prefix.size()), TensorForm{torch_dtype(tensor.dtype), tensor.shape});
      }
    }
  }
  for (const auto& [name, tensor] : file_shared_) {
    if (name.starts_with(prefix)) {
      forms.emplace(name.substr(prefix.size()), TensorForm{tensor.scalar_type(), tensor.sizes().vec()});
    }
  }
  return forms;
}

/// (2): false on all ranks of the node if the one that reads could not.
bool CheckpointReader::read_on_node(const std::string& name, at::Tensor& host, std::string& error) {
  if (!node_ || node_->rank() == 0) error = error_of([&] { folder_->read(name, writable_bytes(host)); });
  if (!node_) return error.empty();
  std::int64_t failed = error.empty() ? 0 : 1;
  node_->bcast(std::span(&failed, 1));
  if (failed == 0 && host.numel() > 0) node_->bcast(writable_bytes(host));
  return failed == 0;
}

void CheckpointReader::read(const std::string& prefix, const NamedTensors& tensors) {
  std::string error;
  for (const auto& [name, tensor] : tensors) {
    at::Tensor target = tensor.detach();
    if (!folder_) {
      target.copy_(file_shared_.at(prefix + name));
      continue;
    }
    const bool straight = target.is_cpu() && target.is_contiguous();
    at::Tensor host = straight ? target : at::empty(target.sizes(), target.options().device(at::kCPU));
    // Not thrown yet: other nodes may still read, and agree() needs every rank.
    if (!read_on_node(prefix + name, host, error)) break;
    if (!straight) target.copy_(host);
  }
  agree(error);
}

NamedTensors CheckpointReader::own() {
  if (!folder_) return file_own_;
  NamedTensors tensors;
  if (ranks_ != comm_.size()) return tensors;  // (3): there is no rank whose tensors these would be
  const std::string prefix = own_tensor_name(static_cast<std::size_t>(comm_.rank()), "");
  for (const auto& [name, form] : shared(prefix)) {
    at::Tensor tensor = at::empty(form.shape, form.dtype);
    folder_->read(prefix + name, writable_bytes(tensor));
    tensors.emplace_back(name, std::move(tensor));
  }
  return tensors;
}

}  // namespace mn

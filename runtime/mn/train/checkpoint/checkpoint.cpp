#include <string>

#include <mn/comm/communicator.hpp>
#include <mn/core/error.hpp>
#include <mn/core/json.hpp>
#include <mn/core/log.hpp>
#include <mn/train/checkpoint/checkpoint.hpp>
#include <mn/train/checkpoint/checkpoint_folder.hpp>
#include <mn/train/on_root.hpp>

namespace mn {
namespace {

namespace fs = std::filesystem;

std::optional<Checkpoint> read_newest(const fs::path& folder) {
  for (const fs::path& path : find_checkpoints(folder)) {
    try {
      Checkpoint checkpoint = read_checkpoint(path);
      log_info("resuming from " + path.string());
      return checkpoint;
    } catch (const DataError& error) {
      log_warning(std::string(error.what()) + "; trying the one before");
    }
  }
  log_info("no checkpoint in " + folder.string() + ": training starts at the beginning");
  return std::nullopt;
}

/// Every rank gets what all need and its own section of the checkpoint that rank 0 has read.
std::optional<Checkpoint> distribute(Communicator& comm, const std::optional<Checkpoint>& read) {
  Checkpoint own = read.value_or(Checkpoint());
  const nlohmann::json outline =
      comm.bcast_obj(nlohmann::json({{"found", read.has_value()}, {"ranks", own.ranks.size()}, {"about", own.about}}));
  if (!outline.at("found").get<bool>()) return std::nullopt;
  own.about = outline.at("about");
  own.model = comm.bcast_obj(own.model);
  own.optimizer = comm.bcast_obj(own.optimizer);
  own.extensions = comm.bcast_obj(own.extensions);
  if (outline.at("ranks") != comm.size()) {
    own.ranks.clear();
    return own;
  }
  std::string section = comm.scatter_obj(own.ranks);
  own.ranks.assign(static_cast<std::size_t>(comm.size()), std::string());
  own.ranks[static_cast<std::size_t>(comm.rank())] = std::move(section);
  return own;
}

}  // namespace

std::optional<Checkpoint> load_checkpoint(Communicator& comm, const std::string& from, const fs::path& folder) {
  std::optional<Checkpoint> read;
  const auto read_at_root = [&] {
    if (from == "auto") {
      read = read_newest(folder);
    } else {
      read = read_checkpoint(from);
      log_info("resuming from " + from);
    }
  };
  on_root<DataError>(comm, read_at_root, true);
  return distribute(comm, read);
}

}  // namespace mn

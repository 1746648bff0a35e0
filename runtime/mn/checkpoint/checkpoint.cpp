#include <vector>

#include <mn/checkpoint/checkpoint.hpp>
#include <mn/checkpoint/checkpoint_file.hpp>
#include <mn/checkpoint/checkpoint_folder.hpp>
#include <mn/comm/communicator.hpp>
#include <mn/comm/on_root.hpp>
#include <mn/core/error.hpp>
#include <mn/core/log.hpp>

namespace mn {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;

constexpr int kTag = 7102;  // of the ranks' sections

/// Undamaged.
CheckpointFile open_whole(const fs::path& path) {
  CheckpointFile file(path);
  file.check();
  log_info("resuming from " + path.string());
  return file;
}

std::optional<CheckpointFile> open_newest(const fs::path& folder) {
  for (const fs::path& path : find_checkpoints(folder)) {
    try {
      return open_whole(path);
    } catch (const DataError& error) {
      log_warning(std::string(error.what()) + "; trying the one before");
    }
  }
  log_info("no checkpoint in " + folder.string() + ": training starts at the beginning");
  return std::nullopt;
}

/// At the root: what describes all sections, of which it knows the ranks' own by `own`.
std::vector<CheckpointSection> describe_all(const Checkpoint& checkpoint, const std::vector<json>& own) {
  std::vector<CheckpointSection> sections = {describe_section("model", checkpoint.model),
                                             describe_section("optimizer", checkpoint.optimizer),
                                             describe_section("extensions", checkpoint.extensions)};
  for (std::size_t i = 0; i < own.size(); ++i) {
    sections.push_back({rank_section(static_cast<std::int64_t>(i)), own[i].at(0), own[i].at(1)});
  }
  return sections;
}

/// At the root. Receives all ranks' sections, whatever happens: they wait until they have sent.
void write_all(Communicator& comm, const fs::path& path, const Checkpoint& checkpoint, const std::vector<json>& own) {
  int next = 1;
  try {
    CheckpointWriter file(path, checkpoint.about, describe_all(checkpoint, own));
    for (const std::string* shared : {&checkpoint.model, &checkpoint.optimizer, &checkpoint.extensions}) {
      file.write(*shared);
    }
    file.write(checkpoint.own);
    while (next < comm.size()) file.write(comm.recv_obj(next++, kTag));
    file.commit();
  } catch (...) {
    while (next < comm.size()) (void)comm.recv_obj(next++, kTag);
    throw;
  }
}

}  // namespace

void save_checkpoint(Communicator& comm, const fs::path& path, const Checkpoint& checkpoint) {
  const CheckpointSection mine = describe_section("", checkpoint.own);
  const std::vector<json> own = comm.gather_obj(json::array({mine.bytes, mine.crc32c}));
  if (comm.rank() != 0) comm.send_obj(checkpoint.own, 0, kTag);
  on_root<DataError>(
      comm, [&] { write_all(comm, path, checkpoint, own); }, true);
}

std::optional<Checkpoint> load_checkpoint(Communicator& comm, const std::string& from, const fs::path& folder) {
  std::optional<CheckpointFile> file;
  Checkpoint read;
  const auto read_at_root = [&] {
    file = from == "auto" ? open_newest(folder) : open_whole(from);
    if (!file) return;
    read.ranks = file->ranks();
    read.about = file->about();
    read.model = file->read("model");
    read.optimizer = file->read("optimizer");
    read.extensions = file->read("extensions");
  };
  on_root<DataError>(comm, read_at_root, true);
  const json outline =
      comm.bcast_obj(json({{"found", file.has_value()}, {"ranks", read.ranks}, {"about", read.about}}));
  if (!outline.at("found").get<bool>()) return std::nullopt;
  read.ranks = whole_number<std::int64_t>(outline.at("ranks"));
  read.about = outline.at("about");
  for (std::string* shared : {&read.model, &read.optimizer, &read.extensions}) *shared = comm.bcast_obj(*shared);
  if (read.ranks != comm.size()) return read;
  if (file) {
    for (int rank = 1; rank < comm.size(); ++rank) comm.send_obj(file->read(rank_section(rank)), rank, kTag);
    read.own = file->read(rank_section(0));
  } else {
    read.own = comm.recv_obj(0, kTag);
  }
  return read;
}

}  // namespace mn

#include <algorithm>
#include <charconv>
#include <cstring>
#include <fstream>
#include <functional>

#include <mn/core/checksum.hpp>
#include <mn/core/error.hpp>
#include <mn/core/file.hpp>
#include <mn/core/log.hpp>
#include <mn/train/checkpoint.hpp>
#include <mn/train/on_root.hpp>

namespace mn {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;

constexpr char kMagic[8] = {'m', 'n', '-', 'c', 'k', 'p', 't', '1'};
constexpr std::string_view kPrefix = "snapshot_iter_";
constexpr std::string_view kUnfinishedPrefix = ".snapshot_iter_";  // AtomicFile's

struct Head {
  char magic[8];
  std::uint64_t index_bytes;
  std::uint32_t index_crc;
  std::uint32_t zero;
};
static_assert(sizeof(Head) == 24);

std::uint32_t checksum(std::string_view bytes) { return crc32c(std::as_bytes(std::span(bytes))); }

/// Calls visit(name, section) in the order of the file.
template <class C, class F>
void for_each_section(C& checkpoint, F visit) {
  visit(std::string("model"), checkpoint.model);
  visit(std::string("optimizer"), checkpoint.optimizer);
  for (std::size_t i = 0; i < checkpoint.ranks.size(); ++i) visit("rank." + std::to_string(i), checkpoint.ranks[i]);
}

/// One checkpoint being read; every message names it.
class Reader {
 public:
  explicit Reader(fs::path path) : path_(std::move(path)) {
    if (!fs::is_regular_file(path_)) {
      throw DataError("there is no checkpoint " + path_.string() + ": give an existing file, or auto");
    }
    left_ = fs::file_size(path_);
    file_.open(path_, std::ios::binary);
    if (!file_) throw DataError(with_errno("opening the checkpoint " + path_.string(), errno));
  }

  Checkpoint read() {
    Head head = {};
    if (left_ < sizeof head) damaged("it is cut off");
    const std::string start = take(sizeof head);
    std::memcpy(&head, start.data(), sizeof head);
    if (std::memcmp(head.magic, kMagic, sizeof kMagic) != 0) {
      throw DataError(path_.string() + " is not a checkpoint of mn: give one of the files named snapshot_iter_…");
    }
    const std::string index_text = take(head.index_bytes);
    if (checksum(index_text) != head.index_crc || head.zero != 0) damaged("the checksum of its index is wrong");
    const json index = json::parse(index_text, nullptr, false);
    if (index.is_discarded()) damaged("its index is no JSON");
    try {
      return read_sections(index);
    } catch (const json::exception& error) {
      damaged(std::string("its index is incomplete (") + error.what() + ")");
    }
  }

 private:
  Checkpoint read_sections(const json& index) {
    Checkpoint checkpoint;
    checkpoint.about = index.at("about");
    const json& sections = index.at("sections");
    if (sections.size() < 2) damaged("sections are missing");
    checkpoint.ranks.resize(sections.size() - 2);
    std::size_t i = 0;
    for_each_section(checkpoint, [&](const std::string& name, std::string& section) {
      const json& entry = sections.at(i++);
      if (entry.at("name") != name) damaged("section \"" + name + "\" is missing");
      section = take(entry.at("bytes").get<std::uint64_t>());
      if (checksum(section) != entry.at("crc32c").get<std::uint32_t>()) {
        damaged("the checksum of section \"" + name + "\" is wrong");
      }
    });
    if (left_ != 0) damaged(std::to_string(left_) + " bytes follow its end");
    return checkpoint;
  }

  std::string take(std::uint64_t bytes) {
    if (bytes > left_) damaged("it is cut off");
    std::string part(bytes, '\0');
    if (!file_.read(part.data(), static_cast<std::streamsize>(bytes))) damaged("it can't be read to the end");
    left_ -= bytes;
    return part;
  }

  [[noreturn]] void damaged(const std::string& how) const {
    throw DataError("the checkpoint " + path_.string() + " is damaged: " + how +
                    "; resume from an earlier one (--resume auto finds the newest that is whole)");
  }

  fs::path path_;
  std::ifstream file_;
  std::uint64_t left_ = 0;
};

std::optional<std::int64_t> iteration_of(const fs::path& path) {
  const std::string name = path.filename().string();
  if (!name.starts_with(kPrefix)) return std::nullopt;
  std::int64_t iteration = 0;
  const auto [end, error] = std::from_chars(name.data() + kPrefix.size(), name.data() + name.size(), iteration);
  if (error != std::errc() || end != name.data() + name.size()) return std::nullopt;
  return iteration;
}

/// What AtomicFile left where a job was killed while it wrote.
std::vector<fs::path> unfinished_in(const fs::path& folder) {
  std::vector<fs::path> paths;
  for (const auto& entry : fs::directory_iterator(folder)) {
    const std::string name = entry.path().filename().string();
    if (name.starts_with(kUnfinishedPrefix) && name.ends_with(".tmp")) paths.push_back(entry.path());
  }
  return paths;
}

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

}  // namespace

void write_checkpoint(const fs::path& path, const Checkpoint& checkpoint) {
  json index = {{"about", checkpoint.about}, {"sections", json::array()}};
  for_each_section(checkpoint, [&](const std::string& name, const std::string& section) {
    index["sections"].push_back({{"name", name}, {"bytes", section.size()}, {"crc32c", checksum(section)}});
  });
  const std::string index_text = index.dump();
  Head head = {{}, index_text.size(), checksum(index_text), 0};
  std::memcpy(head.magic, kMagic, sizeof kMagic);

  AtomicFile file(path);
  file.write(std::as_bytes(std::span(&head, 1)));
  file.write(index_text);
  for_each_section(checkpoint, [&](const std::string&, const std::string& section) { file.write(section); });
  file.commit();
}

Checkpoint read_checkpoint(const fs::path& path) { return Reader(path).read(); }

fs::path checkpoint_path(const fs::path& folder, std::int64_t iteration) {
  return folder / (std::string(kPrefix) + std::to_string(iteration));
}

std::vector<fs::path> find_checkpoints(const fs::path& folder) {
  struct Found {
    fs::file_time_type written;
    std::int64_t iteration;
    fs::path path;
  };
  std::vector<Found> found;
  std::error_code none;  // no folder: no checkpoints
  for (const auto& entry : fs::directory_iterator(folder, none)) {
    const auto iteration = iteration_of(entry.path());
    if (iteration && entry.is_regular_file()) found.push_back({entry.last_write_time(), *iteration, entry.path()});
  }
  std::sort(found.begin(), found.end(), [](const Found& a, const Found& b) {
    return std::tie(a.written, a.iteration) > std::tie(b.written, b.iteration);
  });
  std::vector<fs::path> paths;
  for (Found& one : found) paths.push_back(std::move(one.path));
  return paths;
}

void remove_old_checkpoints(const fs::path& folder, std::size_t keep) {
  const std::vector<fs::path> paths = find_checkpoints(folder);
  for (std::size_t i = keep; i < paths.size(); ++i) {
    std::error_code error;
    fs::remove(paths[i], error);
    if (error) log_warning("the old checkpoint " + paths[i].string() + " can't be removed: " + error.message());
  }
  for (const fs::path& path : unfinished_in(folder)) fs::remove(path);
}

std::optional<Checkpoint> load_checkpoint(Communicator& comm, const std::string& from, const fs::path& folder) {
  std::optional<Checkpoint> read;
  on_root<DataError>(
      comm,
      [&] {
        if (from == "auto") {
          read = read_newest(folder);
        } else {
          read = read_checkpoint(from);
          log_info("resuming from " + from);
        }
      },
      true);

  Checkpoint mine = read.value_or(Checkpoint());
  const json outline =
      comm.bcast_obj(json({{"found", read.has_value()}, {"ranks", mine.ranks.size()}, {"about", mine.about}}));
  if (!outline.at("found").get<bool>()) return std::nullopt;
  mine.about = outline.at("about");
  mine.model = comm.bcast_obj(mine.model);
  mine.optimizer = comm.bcast_obj(mine.optimizer);
  if (outline.at("ranks") != comm.size()) {
    mine.ranks.clear();
    return mine;
  }
  std::string own = comm.scatter_obj(mine.ranks);
  mine.ranks.assign(static_cast<std::size_t>(comm.size()), std::string());
  mine.ranks[static_cast<std::size_t>(comm.rank())] = std::move(own);
  return mine;
}

}  // namespace mn

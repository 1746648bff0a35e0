// The format of a checkpoint's file (checkpoint.hpp), which rank 0 writes and reads, without libtorch.
#include <cstring>
#include <filesystem>
#include <fstream>

#include <mn/core/checksum.hpp>
#include <mn/core/error.hpp>
#include <mn/core/file.hpp>
#include <mn/core/json.hpp>
#include <mn/train/checkpoint/checkpoint.hpp>

namespace mn {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;

constexpr char kMagic[8] = {'m', 'n', '-', 'c', 'k', 'p', 't', '2'};
constexpr std::size_t kSharedSections = 3;  // before those of the ranks

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
  visit(std::string("extensions"), checkpoint.extensions);
  for (std::size_t i = 0; i < checkpoint.ranks.size(); ++i) visit("rank." + std::to_string(i), checkpoint.ranks[i]);
}

/// Reads one file; every message names it.
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
      throw DataError(path_.string() +
                      " is not a checkpoint of this version of mn: give one of the files named snapshot_iter_…");
    }
    const std::string index_text = take(head.index_bytes);
    if (checksum(index_text) != head.index_crc || head.zero != 0) damaged("the checksum of its index is wrong");
    const std::string what = "the index of the checkpoint " + path_.string();
    const json index = parse_json(index_text, what);
    return read_json(what, [&] { return read_sections(index); });
  }

 private:
  Checkpoint read_sections(const json& index) {
    Checkpoint checkpoint;
    checkpoint.about = index.at("about");
    const json& sections = index.at("sections");
    if (sections.size() < kSharedSections) damaged("sections are missing");
    checkpoint.ranks.resize(sections.size() - kSharedSections);
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

}  // namespace mn

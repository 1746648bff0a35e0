#include <array>
#include <cstring>
#include <fstream>
#include <utility>

#include <mn/checkpoint/format/checkpoint_file.hpp>
#include <mn/core/checksum.hpp>
#include <mn/core/error.hpp>

namespace mn {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;

constexpr char kMagic[8] = {'m', 'n', '-', 'c', 'k', 'p', 't', '2'};
constexpr std::array kSharedSections = {"model", "optimizer", "extensions"};  // before those of the ranks

struct Head {
  char magic[8];
  std::uint64_t index_bytes;
  std::uint32_t index_crc;
  std::uint32_t zero;
};
static_assert(sizeof(Head) == 24);

std::uint32_t checksum(std::string_view bytes) { return crc32c(std::as_bytes(std::span(bytes))); }

/// The entry of section i, in the order of the file.
std::string section_name(std::size_t i) {
  if (i < kSharedSections.size()) return kSharedSections[i];
  return rank_section(static_cast<std::int64_t>(i - kSharedSections.size()));
}

}  // namespace

bool is_checkpoint_file(const fs::path& path) {
  constexpr std::string_view kAnyVersion(kMagic, sizeof kMagic - 1);
  char start[kAnyVersion.size()] = {};
  std::ifstream file(path, std::ios::binary);
  return file.read(start, sizeof start) && std::string_view(start, sizeof start) == kAnyVersion;
}

std::string rank_section(std::int64_t rank) { return "rank." + std::to_string(rank); }

CheckpointFile::CheckpointFile(const fs::path& path) : path_(path) {
  if (!fs::is_regular_file(path_)) {
    throw DataError("there is no checkpoint " + path_.string() + ": give an existing file, or auto");
  }
  file_ = File(path_, File::Mode::kRead);
  size_ = file_.size();
  const std::string index_text = read_index();
  const std::string what = "the index of the checkpoint " + path_.string();
  const json index = parse_json(index_text, what);
  read_json(what, [&] {
    find_sections(index, sizeof(Head) + index_text.size());
    return true;
  });
}

std::string CheckpointFile::read_index() {
  Head head = {};
  if (size_ < sizeof head) damaged("it is cut off");
  file_.read_at(0, std::as_writable_bytes(std::span(&head, 1)));
  if (std::memcmp(head.magic, kMagic, sizeof kMagic) != 0) {
    throw DataError(path_.string() + " is not a checkpoint: give a folder that training has written to OUT/ckpt");
  }
  // Compared before anything of that size is allocated: the number may be damaged.
  if (head.index_bytes > size_ - sizeof head) damaged("it is cut off");
  std::string text(head.index_bytes, '\0');
  file_.read_at(sizeof head, std::as_writable_bytes(std::span(text)));
  if (checksum(text) != head.index_crc || head.zero != 0) damaged("the checksum of its index is wrong");
  return text;
}

void CheckpointFile::find_sections(const json& index, std::uint64_t begin) {
  about_ = index.at("about");
  const json& entries = index.at("sections");
  if (entries.size() < kSharedSections.size()) damaged("sections are missing");
  for (std::size_t i = 0; i < entries.size(); ++i) {
    const json& entry = entries.at(i);
    // Sections have a fixed order, so a name in another one is damage that a checksum of the index cannot show.
    if (entry.at("name") != section_name(i)) damaged("section \"" + section_name(i) + "\" is missing");
    const auto bytes = whole_number<std::uint64_t>(entry.at("bytes"));
    if (bytes > size_ - begin) damaged("it is cut off");
    sections_.push_back({{section_name(i), bytes, whole_number<std::uint32_t>(entry.at("crc32c"))}, begin});
    begin += bytes;
  }
  // Every byte of the file belongs to a section, and so to a checksum.
  if (begin != size_) damaged(std::to_string(size_ - begin) + " bytes follow its end");
}

std::int64_t CheckpointFile::ranks() const noexcept {
  return static_cast<std::int64_t>(sections_.size() - kSharedSections.size());
}

std::string CheckpointFile::read(std::string_view name) const {
  for (const StoredSection& stored : sections_) {
    if (stored.section.name == name) return read(stored);
  }
  throw ArgumentError("a checkpoint has no section " + std::string(name));
}

void CheckpointFile::check() const {
  for (const StoredSection& stored : sections_) (void)read(stored);
}

std::string CheckpointFile::read(const StoredSection& stored) const {
  std::string content(stored.section.bytes, '\0');
  file_.read_at(stored.offset, std::as_writable_bytes(std::span(content)));
  if (checksum(content) != stored.section.crc32c) {
    damaged("the checksum of section \"" + stored.section.name + "\" is wrong");
  }
  return content;
}

void CheckpointFile::damaged(const std::string& how) const {
  throw DataError("the checkpoint " + path_.string() + " is damaged: " + how +
                  "; resume from an earlier one (--resume auto finds the newest that is whole)");
}

}  // namespace mn

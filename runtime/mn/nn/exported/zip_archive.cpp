// Reads zip archives without compression (PKWARE's APPNOTE.TXT, sections 4.3 and 4.5.3).
//
// The end of the archive says where the central directory lies. The directory has an entry for each record, with the
// offset of its local header; the record's bytes follow that header. Numbers of four bytes that are too small for
// their value hold the largest number, and the value stands in the entry's zip64 field.
//
// (1) Every offset and length comes from the file. Only part() reads, and it checks both against the archive's size.
// (2) A record is handed out only if it is stored as it is and its CRC-32 is right.
//
// Cost: the directory once, and each record's bytes once for its checksum. Nothing is copied.

#include <cstring>
#include <limits>

#include <zlib.h>

#include <mn/core/error.hpp>
#include <mn/core/json.hpp>
#include <mn/nn/exported/zip_archive.hpp>

namespace mn::exported {
namespace {

constexpr std::uint32_t kEnd = 0x06054b50;
constexpr std::uint32_t kEnd64 = 0x06064b50;
constexpr std::uint32_t kLocator64 = 0x07064b50;
constexpr std::uint32_t kEntry = 0x02014b50;
constexpr std::uint32_t kLocalHeader = 0x04034b50;

constexpr std::uint64_t kEndBytes = 22;
constexpr std::uint64_t kLocator64Bytes = 20;
constexpr std::uint64_t kEntryBytes = 46;
constexpr std::uint64_t kLocalHeaderBytes = 30;
constexpr std::uint64_t kMostCommentBytes = std::numeric_limits<std::uint16_t>::max();
constexpr std::uint64_t kInZip64Field = std::numeric_limits<std::uint32_t>::max();

}  // namespace

ZipArchive::ZipArchive(std::string_view bytes, std::string source) : bytes_(bytes), source_(std::move(source)) {
  read_directory();
}

std::string_view ZipArchive::record(const std::string& name) const {
  const auto found = records_.find(name);
  if (found == records_.end()) {
    fail("lacks the record " + json_quoted(name) + ": write it with torch.export.save of torch 2.9 or newer");
  }
  const Record& record = found->second;
  if (record.method != 0 || record.bytes != record.stored_bytes) {
    fail("has the record " + json_quoted(name) + " compressed, which torch.export.save does not do");
  }
  if (number<std::uint32_t>(record.header) != kLocalHeader) {
    fail("is damaged: the record " + json_quoted(name) + " has no header");
  }
  const std::uint64_t begin = record.header + kLocalHeaderBytes + number<std::uint16_t>(record.header + 26) +
                              number<std::uint16_t>(record.header + 28);
  const std::string_view content = part(begin, record.bytes);
  const uLong crc = crc32_z(0, reinterpret_cast<const Bytef*>(content.data()), content.size());
  if (crc != record.crc32) fail("is damaged: the checksum of the record " + json_quoted(name) + " is wrong");
  return content;
}

std::uint64_t ZipArchive::find_end() const {
  for (std::uint64_t comment = 0; comment <= kMostCommentBytes; ++comment) {
    if (kEndBytes + comment > bytes_.size()) break;
    const std::uint64_t at = bytes_.size() - kEndBytes - comment;
    if (number<std::uint32_t>(at) == kEnd && number<std::uint16_t>(at + 20) == comment) return at;
  }
  fail("is cut off, or is not what torch.export.save writes");
}

void ZipArchive::read_directory() {
  const std::uint64_t end = find_end();
  std::uint64_t entries = number<std::uint16_t>(end + 10);
  std::uint64_t at = number<std::uint32_t>(end + 16);
  if (end >= kLocator64Bytes && number<std::uint32_t>(end - kLocator64Bytes) == kLocator64) {
    const auto end64 = number<std::uint64_t>(end - kLocator64Bytes + 8);
    if (number<std::uint32_t>(end64) != kEnd64) fail("is damaged: its central directory has no end");
    entries = number<std::uint64_t>(end64 + 32);
    at = number<std::uint64_t>(end64 + 48);
  }
  for (; entries > 0; --entries) at = read_entry(at);
}

/// Returns where the next entry begins.
std::uint64_t ZipArchive::read_entry(std::uint64_t at) {
  if (number<std::uint32_t>(at) != kEntry) fail("is damaged: its central directory is cut off");
  Record record{.header = number<std::uint32_t>(at + 42),
                .bytes = number<std::uint32_t>(at + 24),
                .stored_bytes = number<std::uint32_t>(at + 20),
                .crc32 = number<std::uint32_t>(at + 16),
                .method = number<std::uint16_t>(at + 10)};
  const std::uint64_t name_end = at + kEntryBytes + number<std::uint16_t>(at + 28);
  const std::uint64_t fields_end = name_end + number<std::uint16_t>(at + 30);
  widen(record, name_end, fields_end);
  const std::string_view path = part(at + kEntryBytes, name_end - at - kEntryBytes);
  const std::string name(path.substr(path.find('/') + 1));
  if (!records_.emplace(name, record).second) fail("has the record " + json_quoted(name) + " twice");
  return fields_end + number<std::uint16_t>(at + 32);
}

/// Takes what is too large for an entry from its zip64 field, which lies in [at, end).
void ZipArchive::widen(Record& record, std::uint64_t at, std::uint64_t end) const {
  constexpr std::uint16_t kZip64 = 1;
  while (at < end && number<std::uint16_t>(at) != kZip64) at += 4 + number<std::uint16_t>(at + 2);
  for (std::uint64_t* value : {&record.bytes, &record.stored_bytes, &record.header}) {
    if (*value != kInZip64Field) continue;
    if (at >= end) fail("is damaged: an entry of its central directory lacks a zip64 field");
    *value = number<std::uint64_t>(at + 4);
    at += sizeof(std::uint64_t);
  }
}

std::string_view ZipArchive::part(std::uint64_t offset, std::uint64_t length) const {
  if (offset > bytes_.size() || length > bytes_.size() - offset) fail("is cut off, or is damaged");
  return bytes_.substr(offset, length);
}

template <class Number>
Number ZipArchive::number(std::uint64_t offset) const {
  Number value = 0;
  std::memcpy(&value, part(offset, sizeof value).data(), sizeof value);
  return value;
}

void ZipArchive::fail(const std::string& how) const { throw DataError(source_ + " " + how); }

}  // namespace mn::exported

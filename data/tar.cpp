// A tar file has for each member a header of 512 bytes and the content, padded to a multiple of 512 bytes. Two blocks
// of zeros end the file.
//
// A long name or large size is stored before its member: GNU stores it as the content of a member of type L, and pax as
// records "LENGTH KEY=VALUE\n" in a member of type x (X in old Solaris). The name in the member's own header may then
// be cut off, and is not used. ustar stores the first part of a long name as a prefix in the header.
//
// (1) Every header has a valid checksum, and all content that it announces lies inside the file.
// (2) Memory is bounded: names have at most kMaxNameBytes, and content at most its member's bytes.
//
// Source: POSIX.1-2017, pax, "ustar Interchange Format" and "pax Header Block"; GNU tar's manual, appendix D.
#include "data/tar.hpp"

#include <algorithm>
#include <cassert>
#include <charconv>
#include <cstring>
#include <utility>

#include <mn/core/error.hpp>
#include <mn/core/file_kind.hpp>
#include <mn/core/text.hpp>
#include <mn/data/retry.hpp>

namespace mn::data {
namespace {

constexpr std::uint64_t kTarBlock = 512;
constexpr std::uint64_t kTarWindow = 1 << 20;
constexpr std::uint64_t kMaxNameBytes = 1 << 20;  // for a long name, and for pax records

}  // namespace

struct TarHeader {
  char name[100];
  char mode[8], uid[8], gid[8];
  char size[12];
  char time[12];
  char checksum[8];
  char type;
  char link[100];
  char magic[6];
  char version[2];
  char owner[32], group[32], major[8], minor[8];
  char prefix[155];
  char reserved[12];
};
static_assert(sizeof(TarHeader) == kTarBlock);

namespace {

template <std::size_t N>
std::string_view field(const char (&text)[N]) {
  return {text, strnlen(text, N)};
}

/// Parses a number of a header: octal digits between blanks, or, from GNU, a large number in base 256, with the highest
/// bit of the first byte set.
template <std::size_t N>
std::optional<std::uint64_t> number(const char (&text)[N]) {
  std::uint64_t value = 0;
  if ((text[0] & 0x80) != 0) {
    if (text[0] != static_cast<char>(0x80)) return {};  // negative, or more than 64 bits
    for (std::size_t i = 1; i < N; ++i) {
      if (value >> 56 != 0) return {};
      value = value << 8 | static_cast<unsigned char>(text[i]);
    }
    return value;
  }
  std::string_view digits = field(text);
  digits.remove_prefix(std::min(digits.find_first_not_of(' '), digits.size()));
  digits = digits.substr(0, digits.find(' '));
  const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), value, 8);
  if (!digits.empty() && (error != std::errc() || end != digits.data() + digits.size())) return {};
  return value;
}

/// Whether the checksum is right: the sum of all bytes of the header, with blanks in place of the checksum. Early tar
/// programs summed signed bytes, so this sum is accepted, too.
bool sum_is_right(const TarHeader& header) {
  TarHeader copy = header;
  std::fill(std::begin(copy.checksum), std::end(copy.checksum), ' ');
  const auto* bytes = reinterpret_cast<const unsigned char*>(&copy);
  std::uint64_t plain = 0;
  std::int64_t with_signs = 0;
  for (std::size_t i = 0; i < sizeof copy; ++i) {
    plain += bytes[i];
    with_signs += static_cast<signed char>(bytes[i]);
  }
  const auto expected = number(header.checksum);
  return expected && (*expected == plain || static_cast<std::int64_t>(*expected) == with_signs);
}

bool begins_as_tar(std::span<const std::byte> bytes) {
  TarHeader header;
  if (bytes.size() < sizeof header) return false;
  std::memcpy(&header, bytes.data(), sizeof header);
  return std::memcmp(header.magic, "ustar", 5) == 0 || sum_is_right(header);
}

bool all_zeros(std::span<const std::byte> bytes) {
  return std::ranges::all_of(bytes, [](std::byte b) { return b == std::byte{0}; });
}

std::string name_in(const TarHeader& header) {
  std::string name(field(header.name));
  const bool has_prefix = std::memcmp(header.magic, "ustar\0", 6) == 0 && header.prefix[0] != '\0';
  return has_prefix ? std::string(field(header.prefix)) + "/" + name : name;
}

bool is_regular(const TarHeader& header, const std::string& name) {
  const bool is_file = header.type == '0' || header.type == '\0' || header.type == '7';
  return is_file && !name.ends_with('/');  // early tar programs had no type for folders, but ended their names with /
}

/// Links, devices, folders and pipes have no content, whatever the header's size says.
std::optional<std::uint64_t> content_bytes(const TarHeader& header) {
  return header.type >= '1' && header.type <= '6' ? std::optional<std::uint64_t>(0) : number(header.size);
}

}  // namespace

/// The long name and large size that the extra members before a member give.
struct TarReader::Extension {
  std::string name;
  std::optional<std::uint64_t> size;
};

TarReader::TarReader(const std::filesystem::path& path, std::string name)
    : file_(path, File::Mode::kRead), name_(name.empty() ? path.string() : std::move(name)), file_bytes_(file_.size()) {
  const auto begin = bytes_at(0, std::min<std::uint64_t>(file_bytes_, kTarBlock));
  if (begins_as_tar(begin)) return;
  const std::string kind = but_kind_of_file({reinterpret_cast<const char*>(begin.data()), begin.size()});
  if (!kind.empty()) throw DataError(name_ + " is not a tar file" + kind);
}

void TarReader::reject_sparse(const std::string& name) const {
  throw DataError(name_ + ": \"" + name +
                  "\" is a sparse file, which is not read: write the tar file without --sparse");
}

void TarReader::damaged(const std::string& what) const {
  throw DataError(name_ + " is damaged or no tar file: " + what + " at byte " + std::to_string(at_) +
                  "; copy it again or recreate it");
}

std::span<const std::byte> TarReader::bytes_at(std::uint64_t begin, std::uint64_t bytes) {
  const bool there = begin >= window_at_ && begin - window_at_ + bytes <= window_.size();
  if (!there) {
    window_.resize(std::min(std::max(bytes, kTarWindow), file_bytes_ - begin));
    window_at_ = begin;
    bool is_stale = false;
    const auto read = [&] {
      if (std::exchange(is_stale, false)) file_ = File(file_.path(), File::Mode::kRead);
      file_.read_at(begin, window_);
    };
    with_retries(read, [&] { is_stale = true; });
  }
  return std::span(window_).subspan(begin - window_at_, bytes);
}

std::string TarReader::text_at(std::uint64_t begin, std::uint64_t bytes) {
  if (bytes > kMaxNameBytes) damaged("a name of " + std::to_string(bytes) + " bytes");
  const auto content = bytes_at(begin, bytes);
  return {reinterpret_cast<const char*>(content.data()), content.size()};
}

std::span<const std::byte> TarReader::read(const TarMember& member) { return bytes_at(member.begin, member.bytes); }

void TarReader::take_pax(std::string_view records, Extension& extension) const {
  bool is_sparse = false;
  while (!records.empty() && records.front() != '\0') {
    std::size_t length = 0;
    const auto [end, error] = std::from_chars(records.data(), records.data() + records.size(), length);
    const std::size_t digits = end - records.data();
    if (error != std::errc() || length <= digits + 1 || length > records.size() || records[length - 1] != '\n') {
      damaged("a malformed pax record");
    }
    const std::string_view record = records.substr(digits + 1, length - digits - 2);
    const std::string_view key = record.substr(0, record.find('='));
    const std::string_view value = record.substr(std::min(key.size() + 1, record.size()));
    if (key == "path" || key == "GNU.sparse.name") extension.name = value;
    is_sparse |= key.starts_with("GNU.sparse.");
    if (key == "size") {
      extension.size = parse_number<std::uint64_t>(value);
      if (!extension.size) damaged("a malformed size");
    }
    records.remove_prefix(length);
  }
  if (is_sparse) reject_sparse(extension.name);
}

bool TarReader::take_extension(const TarHeader& header, const TarMember& member, Extension& extension) {
  if (header.type == 'S') reject_sparse(member.name);
  if (header.type == 'K') return true;  // the long target of a link is not needed
  if (header.type == 'L') {
    const std::string text = text_at(member.begin, member.bytes);
    extension.name = text.substr(0, text.find('\0'));
    return true;
  }
  if (header.type == 'x' || header.type == 'X') {
    take_pax(text_at(member.begin, member.bytes), extension);
    return true;
  }
  extension = {};
  return false;
}

std::optional<TarMember> TarReader::next() {
  Extension extension;
  for (std::optional<std::uint64_t> extended_at;;) {
    if (file_bytes_ - at_ < kTarBlock) damaged(at_ == file_bytes_ ? "its end is missing" : "half a header");
    const auto block = bytes_at(at_, kTarBlock);
    if (all_zeros(block)) return check_end(), std::nullopt;
    TarHeader header;
    std::memcpy(&header, block.data(), sizeof header);
    if (!sum_is_right(header)) damaged("the checksum of a header differs");

    TarMember member{.name = extension.name.empty() ? name_in(header) : extension.name,
                     .header_at = extended_at.value_or(at_),
                     .begin = at_ + kTarBlock,
                     .is_link = header.type == '1' || header.type == '2'};
    const bool is_file = is_regular(header, member.name);
    const auto size = is_file && extension.size ? extension.size : content_bytes(header);
    if (!size || *size > file_bytes_ - member.begin) damaged("\"" + member.name + "\" is longer than the file");
    member.bytes = *size;
    assert(member.begin + member.bytes <= file_bytes_);  // invariant 1: the content lies inside the file
    const std::uint64_t next_at =
        std::min(member.begin + (member.bytes + kTarBlock - 1) / kTarBlock * kTarBlock, file_bytes_);
    if (is_file || member.is_link) {
      at_ = next_at;
      return member;
    }
    const bool extends = take_extension(header, member, extension);
    extended_at = extends ? std::optional(member.header_at) : std::nullopt;
    at_ = next_at;
  }
}

// Only zeros may follow the end, as padding, usually to a multiple of 10 KiB. Other content is probably a second tar
// file, which some readers would overlook.
void TarReader::check_end() {
  while (at_ < file_bytes_) {
    const auto bytes = bytes_at(at_, std::min(file_bytes_ - at_, kTarWindow));
    if (!all_zeros(bytes)) damaged("content after the end (two tar files in one? give each by itself)");
    at_ += bytes.size();
  }
}

}  // namespace mn::data

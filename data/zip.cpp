// ZIP: members with a header each, then a directory of all, then its end record. Numbers are little endian; those that
// need more than 32 bits are all ones and stand in an extra field (ZIP64).
#include "data/zip.hpp"

#include <algorithm>
#include <cstddef>
#include <memory>
#include <optional>
#include <span>

#include <zlib.h>

#include <mn/core/error.hpp>

namespace mn::data {
namespace {

constexpr std::uint32_t kMemberMagic = 0x04034B50, kEntryMagic = 0x02014B50, kEndMagic = 0x06054B50,
                        kEnd64Magic = 0x06064B50, kLocatorMagic = 0x07064B50;
constexpr std::uint64_t kMemberBytes = 30, kEntryBytes = 46, kEndBytes = 22, kEnd64Bytes = 56, kLocatorBytes = 20;
constexpr std::uint64_t kMostCommentBytes = 0xFFFF;
constexpr std::uint64_t kMostDirectoryBytes = 64 << 20;
constexpr std::uint16_t kZip64Field = 1;
constexpr std::uint32_t kIn64Field = 0xFFFFFFFF;
constexpr unsigned kStoredMethod = 0, kDeflatedMethod = 8, kEncryptedFlag = 1;

/// Reads numbers one after another.
class Numbers {
 public:
  explicit Numbers(std::span<const std::byte> bytes) : rest_(bytes) {}
  template <class T>
  T take() {
    std::uint64_t value = 0;
    for (std::size_t i = 0; i < sizeof(T) && i < rest_.size(); ++i) {
      value |= std::to_integer<std::uint64_t>(rest_[i]) << 8 * i;
    }
    skip(sizeof(T));
    return static_cast<T>(value);
  }
  void skip(std::size_t bytes) { rest_ = rest_.subspan(std::min(bytes, rest_.size())); }
  std::span<const std::byte> take_bytes(std::size_t bytes) {
    const auto taken = rest_.first(std::min(bytes, rest_.size()));
    skip(bytes);
    return taken;
  }
  [[nodiscard]] std::size_t size() const { return rest_.size(); }

 private:
  std::span<const std::byte> rest_;
};

struct Directory {
  std::uint64_t begin;
  std::uint64_t bytes;
  std::uint64_t count;
};

std::optional<Directory> find_directory64(const File& file, std::uint64_t end_at) {
  if (end_at < kLocatorBytes) return {};
  std::byte locator[kLocatorBytes];
  file.read_at(end_at - kLocatorBytes, locator);
  Numbers numbers(locator);
  if (numbers.take<std::uint32_t>() != kLocatorMagic) return {};
  numbers.skip(4);
  const auto at = numbers.take<std::uint64_t>();
  if (at > end_at || end_at - at < kEnd64Bytes) return {};
  std::byte record[kEnd64Bytes];
  file.read_at(at, record);
  Numbers end(record);
  if (end.take<std::uint32_t>() != kEnd64Magic) return {};
  end.skip(28);
  const auto count = end.take<std::uint64_t>();
  const auto bytes = end.take<std::uint64_t>();
  return Directory{end.take<std::uint64_t>(), bytes, count};
}

std::optional<Directory> find_directory(const File& file, std::uint64_t file_bytes) {
  if (file_bytes < kEndBytes) return {};
  std::vector<std::byte> tail(std::min(file_bytes, kEndBytes + kMostCommentBytes));
  const std::uint64_t tail_at = file_bytes - tail.size();
  file.read_at(tail_at, tail);
  for (std::size_t at = tail.size() - kEndBytes + 1; at-- > 0;) {
    Numbers numbers(std::span<const std::byte>(tail).subspan(at));
    if (numbers.take<std::uint32_t>() != kEndMagic) continue;
    if (auto found = find_directory64(file, tail_at + at)) return found;
    numbers.skip(6);
    const auto count = numbers.take<std::uint16_t>();
    const auto bytes = numbers.take<std::uint32_t>();
    return Directory{numbers.take<std::uint32_t>(), bytes, count};
  }
  return {};
}

/// Takes from the extra fields what did not fit 32 bits, in the order of the format.
void take_zip64(std::span<const std::byte> extra, ZipMember& member, std::uint64_t& header_at) {
  for (Numbers fields(extra); fields.size() >= 4;) {
    const auto id = fields.take<std::uint16_t>();
    Numbers field(fields.take_bytes(fields.take<std::uint16_t>()));
    if (id != kZip64Field) continue;
    for (std::uint64_t* number : {&member.bytes, &member.stored_bytes, &header_at}) {
      if (*number == kIn64Field) *number = field.take<std::uint64_t>();
    }
  }
}

/// An entry of the directory.
struct Entry {
  ZipMember member;
  std::uint64_t header_at = 0;
  bool can_be_read = false;
};

/// What follows an entry's magic.
Entry take_entry(Numbers& numbers) {
  Entry entry;
  ZipMember& member = entry.member;
  numbers.skip(4);
  const unsigned flags = numbers.take<std::uint16_t>();
  const unsigned method = numbers.take<std::uint16_t>();
  entry.can_be_read = (flags & kEncryptedFlag) == 0 && (method == kStoredMethod || method == kDeflatedMethod);
  member.deflated = method == kDeflatedMethod;
  numbers.skip(4);
  member.crc = numbers.take<std::uint32_t>();
  member.stored_bytes = numbers.take<std::uint32_t>();
  member.bytes = numbers.take<std::uint32_t>();
  const std::size_t name = numbers.take<std::uint16_t>();
  const std::size_t extra = numbers.take<std::uint16_t>();
  const std::size_t comment = numbers.take<std::uint16_t>();
  numbers.skip(8);
  entry.header_at = numbers.take<std::uint32_t>();
  const auto text = numbers.take_bytes(name);
  member.name.assign(reinterpret_cast<const char*>(text.data()), text.size());
  take_zip64(numbers.take_bytes(extra), member, entry.header_at);
  numbers.skip(comment);
  return entry;
}

/// zlib's state; inflateEnd() at the end.
class Inflater {
 public:
  Inflater() {
    if (inflateInit2(&stream_, -MAX_WBITS) != Z_OK) throw DataError("cannot start zlib");
  }
  ~Inflater() { inflateEnd(&stream_); }
  Inflater(const Inflater&) = delete;
  Inflater& operator=(const Inflater&) = delete;

  void give(std::span<std::byte> input) {
    stream_.next_in = reinterpret_cast<Bytef*>(input.data());
    stream_.avail_in = static_cast<uInt>(input.size());
  }
  [[nodiscard]] bool needs_input() const { return stream_.avail_in == 0; }
  /// Fills a part of `out`; its length. Sets `code` to zlib's.
  std::size_t take(std::span<std::byte> out, int& code) {
    stream_.next_out = reinterpret_cast<Bytef*>(out.data());
    stream_.avail_out = static_cast<uInt>(out.size());
    code = inflate(&stream_, Z_NO_FLUSH);
    return out.size() - stream_.avail_out;
  }

 private:
  z_stream stream_ = {};
};

}  // namespace

ZipFile::ZipFile(const std::filesystem::path& path)
    : file_(std::make_shared<const File>(path, File::Mode::kRead)), file_bytes_(file_->size()) {
  read_directory();
}

void ZipFile::damaged(const std::string& what) const {
  throw DataError(file_->path().string() + " is damaged or truncated (" + what + "): copy it again");
}

void ZipFile::read_directory() {
  const auto directory = find_directory(*file_, file_bytes_);
  if (!directory) damaged("it has no ZIP directory");
  if (directory->begin > file_bytes_ || directory->bytes > file_bytes_ - directory->begin ||
      directory->bytes > kMostDirectoryBytes || directory->count > directory->bytes / kEntryBytes) {
    damaged("its directory lies outside of it");
  }
  std::vector<std::byte> bytes(directory->bytes);
  file_->read_at(directory->begin, bytes);
  Numbers numbers(bytes);
  for (std::uint64_t i = 0; i < directory->count; ++i) {
    if (numbers.size() < kEntryBytes || numbers.take<std::uint32_t>() != kEntryMagic) damaged("its directory");
    Entry entry = take_entry(numbers);
    ZipMember& member = entry.member;
    if (!entry.can_be_read) {
      throw DataError(file_->path().string() + ": " + member.name + " is encrypted, or packed by another method than " +
                      "deflate: write it again with numpy.savez or numpy.savez_compressed");
    }
    member.begin = content_at(entry.header_at);
    const bool inside = member.begin <= file_bytes_ && member.stored_bytes <= file_bytes_ - member.begin;
    if (!inside || (!member.deflated && member.stored_bytes != member.bytes)) damaged(member.name);
    members_.push_back(std::move(member));
  }
}

std::uint64_t ZipFile::content_at(std::uint64_t header_at) const {
  if (header_at > file_bytes_ || file_bytes_ - header_at < kMemberBytes) damaged("a member lies outside of it");
  std::byte header[kMemberBytes];
  file_->read_at(header_at, header);
  Numbers numbers(header);
  if (numbers.take<std::uint32_t>() != kMemberMagic) damaged("a member's header");
  numbers.skip(22);
  const std::uint64_t name = numbers.take<std::uint16_t>();
  return header_at + kMemberBytes + name + numbers.take<std::uint16_t>();
}

void ZipFile::unpack(const ZipMember& member, const std::filesystem::path& path) const {
  constexpr std::size_t kPiece = 1 << 20;
  File out(path, File::Mode::kReplace);
  Inflater inflater;
  std::vector<std::byte> input(kPiece), output(kPiece);
  std::uint64_t read = 0, written = 0;
  uLong crc = crc32(0, nullptr, 0);
  for (int code = Z_OK; code != Z_STREAM_END;) {
    if (inflater.needs_input() && read < member.stored_bytes) {
      const auto piece = std::span(input).first(std::min<std::uint64_t>(kPiece, member.stored_bytes - read));
      file_->read_at(member.begin + read, piece);
      inflater.give(piece);
      read += piece.size();
    }
    const std::size_t n = inflater.take(output, code);
    const bool stuck = code != Z_OK && code != Z_STREAM_END;
    if (stuck || n > member.bytes - written) damaged(member.name);
    crc = crc32(crc, reinterpret_cast<const Bytef*>(output.data()), static_cast<uInt>(n));
    out.write_at(written, std::span(output).first(n));
    written += n;
  }
  if (written != member.bytes || crc != member.crc) damaged(member.name + ": its checksum or length differs");
}

}  // namespace mn::data

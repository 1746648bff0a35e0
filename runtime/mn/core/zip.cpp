// Archives are untrusted. Only piece() reads from the archive, only part() takes bytes out of what was read, and both
// check the bounds.
#include <mn/core/zip.hpp>

#include <algorithm>
#include <cstring>
#include <functional>
#include <initializer_list>
#include <limits>
#include <span>

#include <mn/core/error.hpp>
#include <mn/core/file_kind.hpp>
#include <mn/core/json.hpp>

namespace mn {
namespace {

constexpr std::uint32_t kZipHeader = 0x04034B50, kZipEntry = 0x02014B50, kZipEnd = 0x06054B50, kZipEnd64 = 0x06064B50,
                        kZipLocator = 0x07064B50;
constexpr std::uint64_t kZipHeaderBytes = 30, kZipEntryBytes = 46, kZipEndBytes = 22, kZipEnd64Bytes = 56,
                        kZipLocatorBytes = 20;
constexpr std::uint64_t kMaxZipCommentBytes = std::numeric_limits<std::uint16_t>::max();
constexpr std::uint64_t kMaxZipDirectoryBytes = 64 << 20;
constexpr std::uint64_t kInZip64Field = std::numeric_limits<std::uint32_t>::max();
constexpr std::uint16_t kZip64Field = 1;

struct ZipSource {
  std::string name;
  std::string_view writer;
  std::uint64_t bytes;
  std::function<void(std::uint64_t offset, std::span<std::byte> out)> read;
};

class ZipDirectoryReader {
 public:
  explicit ZipDirectoryReader(ZipSource source) : source_(std::move(source)) {}

  [[nodiscard]] std::vector<ZipMember> read() const {
    const Directory directory = find_directory();
    if (directory.bytes > kMaxZipDirectoryBytes || directory.count > directory.bytes / kZipEntryBytes) {
      damaged("its directory");
    }
    const std::string bytes = piece(directory.begin, directory.bytes);
    std::vector<ZipMember> members;
    std::string_view rest = bytes;
    for (std::uint64_t i = 0; i < directory.count; ++i) members.push_back(take_entry(rest));
    return members;
  }

 private:
  struct Directory {
    std::uint64_t begin;
    std::uint64_t bytes;
    std::uint64_t count;
  };

  [[nodiscard]] Directory find_directory() const {
    const std::uint64_t tail_bytes = std::min(source_.bytes, kZipEndBytes + kMaxZipCommentBytes);
    const std::string tail = piece(source_.bytes - tail_bytes, tail_bytes);
    for (std::uint64_t comment = 0; kZipEndBytes + comment <= tail_bytes; ++comment) {
      const std::string_view end = part(tail, tail_bytes - kZipEndBytes - comment, kZipEndBytes);
      if (number<std::uint32_t>(end, 0) != kZipEnd || number<std::uint16_t>(end, 20) != comment) continue;
      const Directory found = {number<std::uint32_t>(end, 16), number<std::uint32_t>(end, 12),
                               number<std::uint16_t>(end, 10)};
      return widened(found, source_.bytes - kZipEndBytes - comment);
    }
    const std::string begin = piece(0, std::min(source_.bytes, kFileKindBytes));
    const std::string kind = begin.starts_with("PK") ? "" : but_kind_of_file(begin);
    const std::string what = std::string(source_.writer) + " writes";
    if (!kind.empty()) throw DataError(source_.name + " is not what " + what + kind);
    throw DataError(source_.name + " is cut off, or is not what " + what + ": it has no ZIP directory");
  }

  /// Returns the directory that the ZIP64 end record describes, or `directory` if there is no such record. The ordinary
  /// end record begins, and a ZIP64 locator ends, at the offset `end_at`.
  [[nodiscard]] Directory widened(const Directory& directory, std::uint64_t end_at) const {
    if (end_at < kZipLocatorBytes) return directory;
    const std::string locator = piece(end_at - kZipLocatorBytes, kZipLocatorBytes);
    if (number<std::uint32_t>(locator, 0) != kZipLocator) return directory;
    const std::string end = piece(number<std::uint64_t>(locator, 8), kZipEnd64Bytes);
    if (number<std::uint32_t>(end, 0) != kZipEnd64) damaged("its directory's end");
    return {number<std::uint64_t>(end, 48), number<std::uint64_t>(end, 40), number<std::uint64_t>(end, 32)};
  }

  /// Takes the directory's next entry from the beginning of `rest`, and returns its member.
  [[nodiscard]] ZipMember take_entry(std::string_view& rest) const {
    if (number<std::uint32_t>(rest, 0) != kZipEntry) damaged("its directory");
    const std::uint64_t name_bytes = number<std::uint16_t>(rest, 28), extra_bytes = number<std::uint16_t>(rest, 30),
                        comment_bytes = number<std::uint16_t>(rest, 32);
    ZipMember member{.name = std::string(part(rest, kZipEntryBytes, name_bytes)),
                     .method = method_of(number<std::uint16_t>(rest, 8), number<std::uint16_t>(rest, 10)),
                     .crc = number<std::uint32_t>(rest, 16),
                     .stored_bytes = number<std::uint32_t>(rest, 20),
                     .bytes = number<std::uint32_t>(rest, 24)};
    std::uint64_t header_at = number<std::uint32_t>(rest, 42);
    widen(part(rest, kZipEntryBytes + name_bytes, extra_bytes), {&member.bytes, &member.stored_bytes, &header_at});
    member.begin = content_at(header_at);
    const bool inside = member.begin <= source_.bytes && member.stored_bytes <= source_.bytes - member.begin;
    if (!inside || (member.method == ZipMember::Method::kStored && member.stored_bytes != member.bytes)) {
      damaged(json_quoted(member.name));
    }
    rest.remove_prefix(part(rest, 0, kZipEntryBytes + name_bytes + extra_bytes + comment_bytes).size());
    return member;
  }

  static ZipMember::Method method_of(unsigned flags, unsigned method) {
    constexpr unsigned kEncrypted = 1;
    if ((flags & kEncrypted) != 0 || (method != 0 && method != 8)) return ZipMember::Method::kOther;
    return method == 0 ? ZipMember::Method::kStored : ZipMember::Method::kDeflated;
  }

  /// Replaces each of `numbers` that was too large for the directory's entry by its value in the ZIP64 field. The field
  /// lies in `extra` and has only the values of these numbers, in the order of `numbers`.
  void widen(std::string_view extra, std::initializer_list<std::uint64_t*> numbers) const {
    std::string_view large;
    while (extra.size() >= 4) {
      const std::string_view field = part(extra, 4, number<std::uint16_t>(extra, 2));
      if (number<std::uint16_t>(extra, 0) == kZip64Field) large = field;
      extra.remove_prefix(4 + field.size());
    }
    for (std::uint64_t* value : numbers) {
      if (*value != kInZip64Field) continue;
      *value = number<std::uint64_t>(large, 0);
      large.remove_prefix(sizeof *value);
    }
  }

  /// Returns the offset of the stored bytes of the member whose header is at the offset `header_at`.
  [[nodiscard]] std::uint64_t content_at(std::uint64_t header_at) const {
    const std::string header = piece(header_at, kZipHeaderBytes);
    if (number<std::uint32_t>(header, 0) != kZipHeader) damaged("a member's header");
    return header_at + kZipHeaderBytes + number<std::uint16_t>(header, 26) + number<std::uint16_t>(header, 28);
  }

  [[nodiscard]] std::string piece(std::uint64_t offset, std::uint64_t length) const {
    if (offset > source_.bytes || length > source_.bytes - offset) damaged("a part of it lies outside of it");
    std::string bytes(length, '\0');
    source_.read(offset, std::as_writable_bytes(std::span(bytes)));
    return bytes;
  }

  [[nodiscard]] std::string_view part(std::string_view bytes, std::uint64_t offset, std::uint64_t length) const {
    if (offset > bytes.size() || length > bytes.size() - offset) damaged("its directory");
    return bytes.substr(offset, length);
  }

  template <class Number>
  [[nodiscard]] Number number(std::string_view bytes, std::uint64_t offset) const {
    Number value = 0;
    std::memcpy(&value, part(bytes, offset, sizeof value).data(), sizeof value);
    return value;
  }

  [[noreturn]] void damaged(const std::string& what) const {
    throw DataError(source_.name + " is damaged or truncated (" + what + "): copy it again");
  }

  ZipSource source_;
};

}  // namespace

std::vector<ZipMember> read_zip_directory(std::string_view archive, const std::string& source,
                                          std::string_view writer) {
  const auto read = [archive](std::uint64_t offset, std::span<std::byte> out) {
    std::ranges::copy(std::as_bytes(std::span(archive)).subspan(offset, out.size()), out.begin());
  };
  return ZipDirectoryReader({source, writer, archive.size(), read}).read();
}

std::vector<ZipMember> read_zip_directory(const File& file, std::string_view writer) {
  const auto read = [&file](std::uint64_t offset, std::span<std::byte> out) { file.read_at(offset, out); };
  return ZipDirectoryReader({file.path().string(), writer, file.size(), read}).read();
}

}  // namespace mn

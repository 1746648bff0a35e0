#include "data/npy.hpp"

#include <algorithm>
#include <cstring>
#include <functional>
#include <numeric>
#include <string_view>

#include <isa-l/igzip_lib.h>

#include <mn/core/checksum.hpp>
#include <mn/core/error.hpp>
#include <mn/core/file_kind.hpp>
#include <mn/core/json.hpp>
#include <mn/core/text.hpp>

namespace mn::data {
namespace {

using nlohmann::json;

constexpr std::string_view kNpyMagic = "\x93NUMPY";
constexpr std::size_t kMaxNpyDims = 9;
constexpr std::int64_t kMaxNpyBytes = std::int64_t{1} << 60;

[[noreturn]] void bad_header(const std::string& file, const std::string& what) {
  throw DataError(file + ": its header is damaged (" + what + "): write the array again with numpy.save");
}

/// Parses the Python dictionary of the header as JSON: with double quotes, square brackets, lower-case true and false,
/// and no comma at the end of a list.
json dictionary_of(std::string_view text, const std::string& file) {
  std::string result;
  for (const char c : text) {
    if (c == ')' || c == ']' || c == '}') result.erase(result.find_last_not_of(", \t\n") + 1);
    // Python 2 wrote long integers with an L at the end.
    if (c == 'L' && !result.empty() && result.back() >= '0' && result.back() <= '9') continue;
    result += c == '(' ? '[' : c == ')' ? ']' : c == '\'' ? '"' : c == 'T' ? 't' : c == 'F' ? 'f' : c;
  }
  try {
    return parse_json(result, file);
  } catch (const DataError&) {
    bad_header(file, "it is not a dictionary of descr, fortran_order and shape");
  }
}

/// Parses a dtype such as "<f4": byte order, kind, and bytes of an element.
void read_type(const json& descr, const std::string& file, NpyHeader& header) {
  if (descr.is_array()) throw DataError(file + " holds records, not numbers: save one array for each field");
  const std::string type = descr.is_string() ? descr.get<std::string>() : descr.dump();
  const auto bytes =
      parse_number<decltype(header.item_bytes)>(std::string_view(type).substr(std::min<std::size_t>(type.size(), 2)));
  header.item_bytes = bytes.value_or(0);
  const bool known = bytes && std::string_view("<>|=").find(type[0]) != std::string_view::npos;
  const std::string_view sizes = "\1\2\4\10";
  const bool number = known && std::string_view("biuf").find(type[1]) != std::string_view::npos &&
                      sizes.find(static_cast<char>(std::min<std::size_t>(header.item_bytes, 9))) != sizes.npos;
  if (!number) throw DataError(file + " holds elements of type \"" + type + "\", which shards do not hold");
  header.kind = type[1];
  header.big_endian = type[0] == '>';
}

void read_dictionary(const json& dictionary, const std::string& file, NpyHeader& header) {
  const bool has_all = dictionary.is_object() && dictionary.contains("descr") && dictionary.contains("fortran_order") &&
                       dictionary.contains("shape");
  if (!has_all) bad_header(file, "descr, fortran_order or shape is missing");
  if (dictionary.size() > 3) bad_header(file, "it has further keys");
  read_type(dictionary["descr"], file, header);
  if (!dictionary["fortran_order"].is_boolean()) bad_header(file, "fortran_order is neither True nor False");
  header.fortran = dictionary["fortran_order"].get<bool>();
  if (!dictionary["shape"].is_array()) bad_header(file, "its shape is not a tuple");
  for (const json& extent : dictionary["shape"]) {
    if (!extent.is_number_unsigned()) bad_header(file, "its shape has an extent that is not a number");
    header.shape.push_back(std::min<std::uint64_t>(extent.get<std::uint64_t>(), 2 * kMaxNpyBytes));
    if (header.shape.size() > kMaxNpyDims) throw DataError(file + " has more than 9 dimensions, which no shard holds");
  }
}

std::uint32_t little_endian(std::span<const std::byte> bytes) {
  std::uint32_t value = 0;
  for (std::size_t i = 0; i < bytes.size(); ++i) value |= std::to_integer<std::uint32_t>(bytes[i]) << 8 * i;
  return value;
}

void check_elements(const NpyHeader& header, std::uint64_t file_bytes, const std::string& file) {
  if (header.shape.empty())
    throw DataError(file + " holds one number: an array of one row for each sample is expected");
  auto bytes = static_cast<std::int64_t>(header.item_bytes);
  for (const std::int64_t extent : header.shape) {
    if (extent == 0) continue;
    // Extents may be damaged, so the product must not overflow. An extent of 0 is left out, because the other extents
    // must be plausible, too.
    if (bytes > kMaxNpyBytes / extent) throw DataError(file + ": its header is damaged (its shape)");
    bytes *= extent;
  }
  if (std::ranges::find(header.shape, 0) != header.shape.end()) bytes = 0;
  const std::uint64_t there = file_bytes - header.header_bytes;
  if (there >= static_cast<std::uint64_t>(bytes)) return;
  throw DataError(file + " is truncated: it holds " + std::to_string(there) + " bytes of elements, its header says " +
                  std::to_string(bytes));
}

void swap_bytes(std::span<std::byte> bytes, std::size_t item_bytes) {
  for (std::size_t i = 0; i < bytes.size(); i += item_bytes) {
    std::reverse(bytes.begin() + i, bytes.begin() + i + item_bytes);
  }
}

[[noreturn]] void damaged(const File& archive, const ZipMember& member) {
  throw DataError(archive.path().string() + " is damaged or truncated (" + json_quoted(member.name) +
                  "): copy it again");
}

}  // namespace

std::string NpyHeader::dtype() const {
  if (kind == 'b') return "bool";
  return (kind == 'f' ? "float" : kind == 'i' ? "int" : "uint") + std::to_string(8 * item_bytes);
}

std::int64_t NpyHeader::row_elements() const {
  return std::accumulate(shape.begin() + 1, shape.end(), std::int64_t{1}, std::multiplies<>());
}

NpyHeader parse_npy_header(std::span<const std::byte> begin, std::uint64_t file_bytes, const std::string& file) {
  const std::string_view text(reinterpret_cast<const char*>(begin.data()), begin.size());
  constexpr std::size_t kVersionAt = kNpyMagic.size(), kLengthAt = kVersionAt + 2;
  if (!text.starts_with(kNpyMagic) || begin.size() < kLengthAt + 4) {
    const std::string kind = but_kind_of_file(text);
    throw DataError(file + " is not an .npy file" + (kind.empty() ? ": it does not begin as numpy.save's do" : kind));
  }
  const auto version = std::to_integer<unsigned>(begin[kVersionAt]);
  const std::size_t length_bytes = version == 1 ? 2 : 4;
  const std::size_t length = little_endian(begin.subspan(kLengthAt, length_bytes));
  NpyHeader header;
  header.header_bytes = kLengthAt + length_bytes + length;
  if (version < 1 || version > 3 || header.header_bytes > begin.size()) {
    throw DataError(file + ": its header is damaged, truncated or of another version than 1 to 3");
  }
  read_dictionary(dictionary_of(text.substr(kLengthAt + length_bytes, length), file), file, header);
  check_elements(header, file_bytes, file);
  return header;
}

NpyArray::NpyArray(std::shared_ptr<const File> file, std::uint64_t begin, std::uint64_t bytes, std::string name)
    : file_(std::move(file)), name_(std::move(name)) {
  // Reads the whole header at once. A longer header counts as damaged.
  std::vector<std::byte> head(std::min<std::uint64_t>(bytes, kMaxNpyHeaderBytes));
  file_->read_at(begin, head);
  header_ = parse_npy_header(head, bytes, name_);
  elements_at_ = begin + header_.header_bytes;
}

void NpyArray::read_rows(std::int64_t first, std::int64_t last, std::span<std::byte> out) const {
  if (header_.fortran && header_.shape.size() > 1) {
    read_fortran(first, last, out);
  } else {
    file_->read_at(elements_at_ + first * header_.row_bytes(), out);
  }
  if (header_.big_endian) swap_bytes(out, header_.item_bytes);
}

// In Fortran order the first index varies fastest: the values of one element in all rows lie side by side. Each read
// gets one element of all rows in [first, last).
void NpyArray::read_fortran(std::int64_t first, std::int64_t last, std::span<std::byte> out) const {
  const auto& shape = header_.shape;
  const std::size_t item = header_.item_bytes;
  const std::int64_t row_bytes = header_.row_bytes();
  std::vector<std::byte> run((last - first) * item);
  std::vector<std::int64_t> index(shape.size(), 0);  // indices of the element; index[0], the row, is not used
  const std::int64_t elements = header_.row_elements();
  for (std::int64_t at = 0; at < elements; ++at) {
    std::int64_t to = 0;
    for (std::size_t d = 1; d < shape.size(); ++d) to = to * shape[d] + index[d];
    file_->read_at(elements_at_ + (at * shape[0] + first) * item, run);
    for (std::int64_t row = 0; row < last - first; ++row) {
      std::memcpy(out.data() + row * row_bytes + to * item, run.data() + row * item, item);
    }
    // The next element in Fortran order: the first index after the row's varies fastest.
    for (std::size_t d = 1; d < shape.size() && ++index[d] == shape[d]; ++d) index[d] = 0;
  }
}

NpyArray open_npy(const std::filesystem::path& path) {
  auto file = std::make_shared<const File>(path, File::Mode::kRead);
  const std::uint64_t bytes = file->size();
  return {std::move(file), 0, bytes, path.string()};
}

// Only one thread can unpack an array, so ISA-L's inflate is used: it is faster than zlib's.
void unzip(const File& archive, const ZipMember& member, const std::filesystem::path& path) {
  constexpr std::size_t kPiece = 1 << 20;
  File out(path, File::Mode::kReplace);
  inflate_state state;
  isal_inflate_init(&state);
  std::vector<std::byte> input(kPiece), output(kPiece);
  std::uint64_t read = 0, written = 0;
  std::uint32_t crc = 0;
  while (state.block_state != ISAL_BLOCK_FINISH) {
    const bool has_input = read < member.stored_bytes || state.avail_in > 0;
    if (state.avail_in == 0 && has_input) {
      const auto piece = std::span(input).first(std::min<std::uint64_t>(kPiece, member.stored_bytes - read));
      archive.read_at(member.begin + read, piece);
      state.next_in = reinterpret_cast<std::uint8_t*>(piece.data());
      state.avail_in = static_cast<std::uint32_t>(piece.size());
      read += piece.size();
    }
    state.next_out = reinterpret_cast<std::uint8_t*>(output.data());
    state.avail_out = kPiece;
    const bool is_good = isal_inflate(&state) == ISAL_DECOMP_OK;
    const auto piece = std::span(output).first(kPiece - state.avail_out);
    const bool is_stuck = !has_input && piece.empty() && state.block_state != ISAL_BLOCK_FINISH;
    if (!is_good || is_stuck || piece.size() > member.bytes - written) damaged(archive, member);
    crc = crc32_gzip(piece, crc);
    out.write_at(written, piece);
    written += piece.size();
  }
  if (written != member.bytes || crc != member.crc) damaged(archive, member);
}

}  // namespace mn::data

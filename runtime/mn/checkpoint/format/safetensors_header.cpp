#include <mn/checkpoint/format/safetensors_header.hpp>

#include <algorithm>
#include <cstring>
#include <limits>
#include <span>
#include <tuple>
#include <utility>

#include <mn/core/error.hpp>
#include <mn/core/file.hpp>
#include <mn/core/file_kind.hpp>
#include <mn/core/json.hpp>

namespace mn {
namespace {

using nlohmann::json;

constexpr std::uint64_t kMaxHeaderBytes = 100'000'000;  // the reference implementation's limit

constexpr std::pair<std::string_view, std::uint64_t> kElementBytes[] = {
    {"F64", 8}, {"F32", 4},  {"F16", 2}, {"BF16", 2}, {"I64", 8}, {"I32", 4},     {"I16", 2},     {"I8", 1},
    {"U8", 1},  {"BOOL", 1}, {"U64", 8}, {"U32", 4},  {"U16", 2}, {"F8_E4M3", 1}, {"F8_E5M2", 1}, {"C64", 8}};

/// Parses the header of one file. The text of every error names the file.
class Parser {
 public:
  /// `file` has at least the header of a file of `bytes` bytes.
  Parser(std::string_view file, std::uint64_t bytes, const std::string& source)
      : file_(file), bytes_(bytes), source_(source) {}

  std::vector<SafetensorsEntry> parse() {
    std::uint64_t header_bytes = 0;
    if (file_.size() < sizeof header_bytes) fail("is cut off: it has " + std::to_string(file_.size()) + " bytes");
    if (file_.substr(sizeof header_bytes, 1) != "{") check_kind();
    std::memcpy(&header_bytes, file_.data(), sizeof header_bytes);
    // A damaged file may hold any 64-bit number here. The check subtracts, because a sum could overflow.
    if (header_bytes > kMaxHeaderBytes || header_bytes > bytes_ - sizeof header_bytes) {
      fail("is cut off, or is not a safetensors file");
    }
    const json header =
        parse_json(file_.substr(sizeof header_bytes, header_bytes), source_ + " is not a safetensors file: its header");
    if (!header.is_object()) fail("is not a safetensors file: its header is not a JSON object");
    data_ = sizeof header_bytes + header_bytes;
    return read_entries(header);
  }

 private:
  /// If the file is of another known kind, throws an error that names this kind. Call it only if no header follows the
  /// length, because a valid length may look like the first bytes of another kind.
  void check_kind() const {
    const auto kind = kind_of_file(file_);
    if (!kind) return;
    if (file_.starts_with("PK") || file_.starts_with('\x80')) {
      fail(
          "is a file of PyTorch's (.pt, .pth), which may run code when it is read. Convert it once: python3 -c "
          "\"import "
          "torch, safetensors.torch as s; w = torch.load('" +
          source_ +
          "', map_location='cpu', weights_only=True); w = next((w[k] for k in ('state_dict', 'model_state_dict', "
          "'model') if k in w), w); s.save_file({k: v.clone().contiguous() for k, v in w.items() if "
          "torch.is_tensor(v)}, 'model.safetensors')\"");
    }
    if (file_.find("\"weight_map\"") != std::string_view::npos) {
      fail("is the index of weights in several files: its name must end in .json, and the files must lie beside it");
    }
    fail("is not a safetensors file but " + kind->name + ": " + kind->remedy);
  }

  /// Sets is_complex of the tensors that the file's metadata lists as complex.
  void mark_complex(const json& header, std::vector<SafetensorsEntry>& entries) const {
    const json metadata = header.value("__metadata__", json::object());
    if (!metadata.is_object() || !metadata.contains(kComplexKey)) return;
    const std::string what = source_ + " has malformed metadata: its list of complex tensors";
    const json names = read_json(what, [&] { return parse_json(metadata.at(kComplexKey).get<std::string>(), what); });
    for (SafetensorsEntry& entry : entries) {
      entry.is_complex = std::ranges::find(names, json(entry.name)) != names.end();
      if (entry.is_complex && !are_pairs(entry.dtype, entry.shape)) {
        fail("calls tensor " + json_quoted(entry.name) + " complex, which does not hold pairs of real numbers");
      }
    }
  }

  std::vector<SafetensorsEntry> read_entries(const json& header) {
    std::vector<SafetensorsEntry> entries;
    for (const auto& [name, entry] : header.items()) {
      if (name == "__metadata__") continue;
      entries.push_back(read_json(source_ + " has a malformed entry for tensor " + json_quoted(name) + ": it",
                                  [&, &key = name, &value = entry] { return read_entry(key, value); }));
    }
    std::sort(entries.begin(), entries.end(), [](const SafetensorsEntry& a, const SafetensorsEntry& b) {
      return std::tuple(a.begin, a.end) < std::tuple(b.begin, b.end);
    });
    // Tensors are sorted by their bytes, and must follow each other without a gap, up to the end of the file.
    std::uint64_t covered = data_;
    for (const SafetensorsEntry& entry : entries) {
      if (entry.begin != covered) fail("has a gap or an overlap before tensor " + json_quoted(entry.name));
      covered = entry.end;
    }
    mark_complex(header, entries);
    if (covered != bytes_) {
      fail("holds " + std::to_string(bytes_ - data_) + " bytes of data where its header describes " +
           std::to_string(covered - data_));
    }
    return entries;
  }

  SafetensorsEntry read_entry(const std::string& name, const json& entry) const {
    const auto begin = whole_number<std::uint64_t>(entry.at("data_offsets").at(0));
    const auto end = whole_number<std::uint64_t>(entry.at("data_offsets").at(1));
    const auto shape = whole_numbers<std::int64_t>(entry.at("shape"));
    const auto dtype = entry.at("dtype").get<std::string>();
    const bool is_known = safetensors_element_bytes(dtype) > 0;  // the format may get further dtypes, such as F4
    const std::uint64_t bytes = is_known ? safetensors_bytes(name, dtype, shape, source_) : end - begin;
    if (begin > end || end > bytes_ - data_) fail("is cut off: tensor " + json_quoted(name) + " lies beyond its end");
    if (bytes != end - begin) {
      fail("gives tensor " + json_quoted(name) + " " + std::to_string(end - begin) + " bytes, which is not " + dtype +
           " " + json(shape).dump());
    }
    const std::string_view content = file_.size() == bytes_ ? file_.substr(data_ + begin, bytes) : std::string_view();
    return {name, dtype, shape, data_ + begin, data_ + end, content, false};
  }

  [[noreturn]] void fail(const std::string& how) const { throw DataError(source_ + " " + how); }

  std::string_view file_;
  std::uint64_t bytes_;
  std::uint64_t data_ = 0;  // where the data begins
  const std::string& source_;
};

}  // namespace

std::uint64_t safetensors_element_bytes(std::string_view dtype) noexcept {
  const auto known = std::ranges::find(kElementBytes, dtype, [](const auto& element) { return element.first; });
  return known == std::end(kElementBytes) ? 0 : known->second;
}

bool are_pairs(std::string_view dtype, const std::vector<std::int64_t>& shape) noexcept {
  return (dtype == "F16" || dtype == "F32" || dtype == "F64") && !shape.empty() && shape.back() == 2;
}

std::uint64_t safetensors_bytes(const std::string& name, const std::string& dtype,
                                const std::vector<std::int64_t>& shape, const std::string& source) {
  std::uint64_t bytes = safetensors_element_bytes(dtype);
  if (bytes == 0) {
    throw DataError(source + " holds tensor " + json_quoted(name) + " of an unknown dtype " + json_quoted(dtype));
  }
  bool is_empty = false;
  for (const std::int64_t extent : shape) {
    // An extent of 0 counts as 1 here, so the product checks all extents for overflow.
    const auto factor = static_cast<std::uint64_t>(std::max<std::int64_t>(extent, 1));
    if (extent < 0 || bytes > std::numeric_limits<std::int64_t>::max() / factor) {
      throw DataError(source + " gives tensor " + json_quoted(name) + " an impossible shape");
    }
    bytes *= factor;
    is_empty = is_empty || extent == 0;
  }
  return is_empty ? 0 : bytes;
}

std::string safetensors_header(const nlohmann::json& header) {
  std::string text = header.dump();
  // Blanks lengthen the header to a multiple of 8 bytes, because the data must be aligned, as in the reference
  // implementation.
  text.resize((text.size() + 7) / 8 * 8, ' ');
  const std::uint64_t bytes = text.size();
  return std::string(reinterpret_cast<const char*>(&bytes), sizeof bytes) + text;
}

json read_safetensors_header(const std::filesystem::path& path) {
  const File file(path, File::Mode::kRead);
  std::uint64_t header_bytes = 0;
  if (file.size() < sizeof header_bytes) return {};
  file.read_at(0, std::as_writable_bytes(std::span(&header_bytes, 1)));
  if (header_bytes > kMaxHeaderBytes || header_bytes > file.size() - sizeof header_bytes) return {};
  std::string text(header_bytes, '\0');
  file.read_at(sizeof header_bytes, std::as_writable_bytes(std::span(text)));
  return parse_json(text, path.string() + " is not a safetensors file: its header");
}

std::vector<SafetensorsEntry> parse_safetensors_header(std::string_view file, const std::string& source) {
  return Parser(file, file.size(), source).parse();
}

std::vector<SafetensorsEntry> read_safetensors_entries(const File& file) {
  constexpr std::uint64_t kKindBytes = 1 << 20;  // show which other kind of file it is
  const std::uint64_t bytes = file.size();
  std::uint64_t header_bytes = 0;
  if (bytes >= sizeof header_bytes) file.read_at(0, std::as_writable_bytes(std::span(&header_bytes, 1)));
  const bool has_header =
      bytes >= sizeof header_bytes && header_bytes <= std::min(kMaxHeaderBytes, bytes - sizeof header_bytes);
  std::string head(has_header ? sizeof header_bytes + header_bytes : std::min(bytes, kKindBytes), '\0');
  file.read_at(0, std::as_writable_bytes(std::span(head)));
  const std::string source = file.path().string();
  return Parser(head, bytes, source).parse();
}

}  // namespace mn

#include <mn/trainer/extensions/list_file.hpp>

#include <algorithm>
#include <cassert>
#include <span>
#include <system_error>
#include <utility>

#include <mn/core/checksum.hpp>
#include <mn/core/error.hpp>
#include <mn/core/file.hpp>
#include <mn/core/json.hpp>
#include <mn/core/log.hpp>

namespace mn::extensions {
namespace {

using nlohmann::json;

constexpr std::string_view kListEnd = "\n]\n";

std::uint32_t crc_of(std::string_view text, std::uint32_t before = 0) {
  return crc32c(std::as_bytes(std::span(text)), before);
}

std::string text_of(const json& row) {
  const std::string list = json_text(json::array({row}), 4);
  return list.substr(1, list.size() - 3);
}

/// Returns the first `bytes` bytes of a file with the checksum `crc`, or "" if the file does not begin with them.
std::string beginning_of(const std::filesystem::path& path, std::uint64_t bytes, std::uint32_t crc) {
  std::error_code none;
  if (path.empty() || !std::filesystem::exists(path, none)) return "";
  std::string text = read_file(path);
  text.resize(std::min<std::size_t>(text.size(), bytes));
  return text.size() == bytes && crc_of(text) == crc ? text : "";
}

}  // namespace

ListFile::ListFile(std::filesystem::path path) : path_(std::move(path)), source_(path_) {}

void ListFile::add(const json& row) { rows_.push_back(text_of(row)); }
void ListFile::change_last(const json& row) {
  assert(!rows_.empty());  // the last row is never settled
  rows_.back() = text_of(row);
}
void ListFile::remove_last() {
  assert(!rows_.empty());
  rows_.pop_back();
}

std::string ListFile::end() const {
  std::string text;
  for (const std::string& row : rows_) text += (text.empty() && settled_bytes_ == 0 ? "[" : ",") + row;
  return text.append(kListEnd);
}

void ListFile::write() {
  std::error_code none;
  const bool is_there =
      !written_end_.empty() && std::filesystem::file_size(path_, none) == settled_bytes_ + written_end_.size();
  if (is_there) {
    File(path_, File::Mode::kUpdate).replace_end(settled_bytes_, written_end_, end());
  } else {  // either the first write, or somebody has changed the file
    const std::string begin = settled_text();
    write_file(path_, begin + end());
    source_ = path_;
  }
  settle();
}

/// Called after a write. All rows except the last row become settled rows, which never change again.
void ListFile::settle() {
  written_end_ = end();
  while (rows_.size() > 1) {
    const std::string text = (settled_bytes_ == 0 ? "[" : ",") + rows_.front();
    settled_crc_ = crc_of(text, settled_crc_);
    settled_bytes_ += text.size();
    written_end_.erase(0, text.size());
    rows_.erase(rows_.begin());
  }
}

std::string ListFile::settled_text() {
  if (settled_bytes_ == 0) return "";
  std::string text = beginning_of(source_, settled_bytes_, settled_crc_);
  if (!text.empty()) return text;
  begin_anew(source_.string() + " no longer has the reports of this run and of earlier runs");
  return "";
}

void ListFile::begin_anew(const std::string& why) {
  std::filesystem::path lost = path_;
  lost += ".lost";
  std::error_code error;
  std::filesystem::rename(path_, lost, error);
  log_warning(why + ": " + path_.string() + " begins anew" + (error ? "" : "; what was there is now " + lost.string()));
  settled_bytes_ = settled_crc_ = 0;
}

json ListFile::state(std::size_t left_out) const {
  assert(left_out <= rows_.size());
  return {{"bytes", settled_bytes_},
          {"crc32c", settled_crc_},
          {"rows", std::vector(rows_.begin(), rows_.end() - static_cast<std::ptrdiff_t>(left_out))}};
}

std::vector<std::string_view> ListFile::rows_of(std::string_view text) {
  constexpr std::string_view kRow = "\n    {";  // the lines of a row are indented further
  std::vector<std::string_view> rows;
  for (std::size_t begin = text.find(kRow); begin != text.npos;) {
    const std::size_t end = text.find(kRow, begin + 1);
    const std::string_view row = text.substr(begin, end - begin);
    rows.push_back(row.substr(0, row.rfind('}') + 1));
    begin = end;
  }
  return rows;
}

std::vector<json> ListFile::load(const json& state, const std::filesystem::path& other, std::size_t most) {
  settled_bytes_ = whole_number<std::uint64_t>(state.at("bytes"));
  settled_crc_ = whole_number<std::uint32_t>(state.at("crc32c"));
  rows_ = state.at("rows").get<std::vector<std::string>>();
  written_end_.clear();
  std::string text;
  try {
    if (!other.empty() && beginning_of(path_, settled_bytes_, settled_crc_).empty()) source_ = other;
    text = settled_text();
  } catch (const DataError& error) {
    begin_anew(error.what());
  }
  text += end();
  const std::vector<std::string_view> all = rows_of(text);
  std::vector<json> rows;
  for (std::size_t i = all.size() - std::min(all.size(), most); i < all.size(); ++i) {
    rows.push_back(parse_json(all[i], source_.string()));
  }
  return rows;
}

}  // namespace mn::extensions

#include <mn/report/samples.hpp>

#include <algorithm>
#include <cstdint>
#include <filesystem>
#include <map>
#include <string_view>
#include <system_error>
#include <utility>

#include <mn/core/file.hpp>
#include <mn/report/format.hpp>

namespace mn::report {
namespace {

namespace fs = std::filesystem;

constexpr std::size_t kMaxOfTag = 6, kMaxTags = 32, kMaxBytes = std::size_t{4} << 20, kMaxText = 4000;

std::string base64(std::string_view bytes) {
  constexpr std::string_view kDigits = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  std::string text;
  for (std::size_t i = 0; i < bytes.size(); i += 3) {
    std::uint32_t bits = 0;
    for (std::size_t k = 0; k < 3; ++k) {
      bits = bits << 8 | (i + k < bytes.size() ? static_cast<unsigned char>(bytes[i + k]) : 0U);
    }
    for (std::size_t k = 0; k < 4; ++k) text += i + k > bytes.size() ? '=' : kDigits[bits >> (18 - 6 * k) & 63U];
  }
  return text;
}

/// Divides TAG-ITERATION.png into tag and iteration. Without an iteration, the whole name is the tag.
std::pair<std::string, std::string> parts_of(const fs::path& file) {
  const std::string name = file.stem().string();
  const auto dash = name.find_last_not_of("0123456789");
  if (dash == std::string::npos || name[dash] != '-' || dash + 1 == name.size()) return {name, ""};
  return {name.substr(0, dash), name.substr(std::min(name.find_first_not_of('0', dash + 1), name.size() - 1))};
}

/// Groups the files with an ending in `kinds` by their tags, the newest file first.
std::map<std::string, std::vector<fs::path>> files_of(const fs::path& folder, const std::vector<std::string>& kinds) {
  std::map<std::string, std::vector<fs::path>> tags;
  std::error_code none;
  for (const auto& entry : fs::directory_iterator(folder, none)) {
    if (std::ranges::find(kinds, entry.path().extension().string()) == kinds.end()) continue;
    tags[parts_of(entry.path()).first].push_back(entry.path());
  }
  for (auto& [tag, files] : tags) std::ranges::sort(files, std::ranges::greater());
  return tags;
}

std::string figure(const fs::path& file, const std::string& content) {
  const auto [tag, iteration] = parts_of(file);
  const std::string caption = iteration.empty() ? tag : "step " + iteration;
  return "<figure>" + content + "<figcaption>" + escape_html(caption) + "</figcaption></figure>\n";
}

std::string image(const fs::path& file) {
  const std::string bytes = read_file(file);
  if (bytes.size() > kMaxBytes) return "";
  return figure(file, "<img alt='" + escape_html(file.filename().string()) + "' src='data:image/" +
                          (file.extension() == ".png" ? "png" : "jpeg") + ";base64," + base64(bytes) + "'>");
}

std::string text(const fs::path& file) {
  const std::string all = read_file(file);
  std::size_t shown = std::min(all.size(), kMaxText);
  const auto is_inside = [&] {
    return shown < all.size() && (static_cast<unsigned char>(all[shown]) & 0xC0U) == 0x80U;
  };
  while (shown > 0 && is_inside()) --shown;  // moves back, so as not to cut a character of several bytes
  return figure(file, "<pre>" + escape_html(all.substr(0, shown)) + (shown < all.size() ? "…" : "") + "</pre>");
}

template <class Show>
std::string rows_of(const std::map<std::string, std::vector<fs::path>>& tags, const Show& show) {
  std::string html;
  std::size_t shown = 0;
  for (const auto& [tag, files] : tags) {
    if (shown++ == kMaxTags) break;
    html += "<p>" + escape_html(tag) + "</p><div class='samples'>";
    for (std::size_t i = 0; i < std::min(files.size(), kMaxOfTag); ++i) html += show(files[i]);
    html += "</div>\n";
  }
  return html;
}

}  // namespace

std::string samples_of(const Run& run) {
  return rows_of(files_of(run.folder / "images", {".png", ".jpg", ".jpeg"}), image) +
         rows_of(files_of(run.folder / "texts", {".txt"}), text);
}

}  // namespace mn::report

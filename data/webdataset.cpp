#include "data/webdataset.hpp"

#include <algorithm>
#include <charconv>
#include <limits>
#include <string_view>

#include <mn/core/text.hpp>

namespace mn::data {
namespace {

constexpr std::uint64_t kMaxImageBytes = std::uint64_t{1} << 30;
constexpr std::uint64_t kMaxLabelBytes = 64;

struct WebName {
  std::string key;
  std::string extension;  // in lower case
};

WebName split_name(const std::string& name) {
  const std::size_t last_part = name.rfind('/') + 1;  // npos + 1 is 0
  const std::size_t dot = name.find('.', last_part);
  if (dot == std::string::npos) return {name, ""};
  return {name.substr(0, dot), to_lower(name.substr(dot + 1))};
}

bool is_image(const std::string& extension) {
  constexpr std::string_view kExtensions[] = {"jpg", "jpeg", "png", "webp", "tif", "tiff"};
  return std::ranges::find(kExtensions, extension) != std::end(kExtensions);
}

/// Parses a whole number, which may have blanks around it; no value if the text is not a number.
std::optional<std::int64_t> parse_label(std::string_view text) {
  constexpr std::string_view kBlanks = " \t\r\n";
  text.remove_prefix(std::min(text.find_first_not_of(kBlanks), text.size()));
  text = text.substr(0, text.find_last_not_of(kBlanks) + 1);
  std::int64_t label = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), label);
  return error == std::errc() && end == text.data() + text.size() ? std::optional(label) : std::nullopt;
}

}  // namespace

bool WebReader::next(WebSample& sample) {
  if (!has_begun_) ahead_ = tar_.next();
  has_begun_ = true;
  const auto hidden = [](const TarMember& member) { return member.name[member.name.rfind('/') + 1] == '.'; };
  while (ahead_ && hidden(*ahead_)) ahead_ = tar_.next();
  if (!ahead_) return false;
  sample = {.key = split_name(ahead_->name).key, .at = ahead_->header_at, .image = std::move(sample.image)};
  has_image_ = has_label_ = false;
  // A sample is consecutive members with the same key. To find its end, the reader reads one member ahead.
  for (; ahead_; ahead_ = tar_.next()) {
    const WebName name = split_name(ahead_->name);
    if (hidden(*ahead_)) continue;
    if (name.key != sample.key) break;
    add(*ahead_, name.extension, sample);
  }
  if (sample.error.empty()) sample.error = lack(sample);
  return true;
}

std::string WebReader::lack(const WebSample& sample) const {
  if (has_image_ && has_label_) return {};
  const std::string what = has_image_ ? "it has no .cls" : "it has no .jpg, .jpeg, .png, .webp, .tif or .tiff";
  const std::size_t dot = sample.other.rfind('.');
  const std::string last = dot == std::string::npos ? "" : to_lower(sample.other.substr(dot + 1));
  if (is_image(last) || last == "cls") {
    return what + ", but " + sample.other + ": a sample's name ends at the first dot (WebDataset): rename it";
  }
  return what + (sample.other.empty() ? "" : ", but " + sample.other) +
         " (members of a sample follow one another: `tar --sort=name` writes them so)";
}

void WebReader::add(const TarMember& member, const std::string& extension, WebSample& sample) {
  if (member.is_link && (is_image(extension) || extension == "cls")) {
    sample.error = "its ." + extension + " is a link: write the tar file with --dereference --hard-dereference";
  } else if (is_image(extension)) {
    if (has_image_) sample.error = "it has two images";
    if (member.bytes > kMaxImageBytes) sample.error = "it has an image of more than 1 GiB";
    has_image_ = true;
    if (!sample.error.empty()) return;
    const auto bytes = tar_.read(member);
    sample.image.assign(bytes.begin(), bytes.end());
  } else if (extension == "cls") {
    if (has_label_) sample.error = "it has two labels";
    has_label_ = true;
    const auto bytes = tar_.read(member).first(std::min(member.bytes, kMaxLabelBytes));
    const std::string text(reinterpret_cast<const char*>(bytes.data()), bytes.size());
    const auto label = parse_label(text);
    if (label && *label >= 0 && *label <= std::numeric_limits<std::int32_t>::max()) {
      sample.label = static_cast<std::int32_t>(*label);
    } else {
      sample.error = "its .cls is not a label (a whole number from 0 to 2147483647)";
    }
  } else {
    sample.other = member.name.substr(member.name.rfind('/') + 1);
  }
}

}  // namespace mn::data

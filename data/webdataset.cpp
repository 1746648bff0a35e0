#include "data/webdataset.hpp"

#include <algorithm>
#include <string_view>

#include <mn/core/error.hpp>
#include <mn/core/json.hpp>
#include <mn/core/text.hpp>

namespace mn::data {
namespace {

constexpr std::uint64_t kMaxImageBytes = std::uint64_t{1} << 30;
constexpr std::uint64_t kMaxLabelBytes = std::uint64_t{16} << 20;  // for a JSON document

using nlohmann::json;

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

/// The value at the path `keys` of a JSON document, as text. Throws DataError if there is no such value.
std::string json_label(const std::string& text, const std::vector<std::string>& keys) {
  json value = parse_json(text, "the document");
  for (const std::string& key : keys) {
    if (!value.is_object() || !value.contains(key)) {
      std::vector<std::string> names;
      for (const auto& item : value.items()) {
        if (value.is_object() && names.size() < 9) names.push_back(json_quoted(item.key()));
      }
      throw DataError("no key " + json_quoted(key) + (names.empty() ? "" : ", but " + join(names)) +
                      ": give its key with --label-member");
    }
    value = json(value[key]);
  }
  return value.is_string() ? value.get<std::string>() : json_text(value);
}

}  // namespace

WebMembers WebMembers::parse(const std::string& image, const std::string& label) {
  const std::size_t colon = std::min(label.find(':'), label.size());
  const auto extension = [](const std::string& text) { return to_lower(text.substr(text.starts_with('.') ? 1 : 0)); };
  WebMembers members{.image = extension(image), .label = extension(label.substr(0, colon))};
  if (colon < label.size()) {
    for (const std::string_view key : split(std::string_view(label).substr(colon + 1), '.'))
      members.keys.emplace_back(key);
  }
  if (members.label.empty() || std::ranges::find(members.keys, "") != members.keys.end()) {
    throw UsageError("--label-member \"" + label + "\" is neither MEMBER nor MEMBER:KEY, such as cls or json:label");
  }
  if (members.image == members.label) throw UsageError("--image-member and --label-member name the same member");
  return members;
}

bool WebReader::next(WebSample& sample) {
  if (!has_begun_) ahead_ = tar_.next();
  has_begun_ = true;
  const auto hidden = [](const TarMember& member) { return member.name[member.name.rfind('/') + 1] == '.'; };
  while (ahead_ && hidden(*ahead_)) ahead_ = tar_.next();
  if (!ahead_) return false;
  sample = {.key = split_name(ahead_->name).key, .at = ahead_->header_at, .image = std::move(sample.image)};
  has_image_ = has_label_ = false;
  // A sample is a run of members with equal keys. To find its end, the reader reads one member ahead.
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
  const std::string image = members_.image.empty() ? "jpg, .png or other image" : members_.image;
  const std::string what = "it has no ." + (has_image_ ? members_.label : image);
  const std::size_t dot = sample.other.rfind('.');
  const std::string last = dot == std::string::npos ? "" : to_lower(sample.other.substr(dot + 1));
  if (has_image_ && last == "json") {
    return what + ", but " + sample.other + ": --label-member json:KEY takes the label from it";
  }
  if (is_image_extension(last) || last == members_.label) {
    return what + ", but " + sample.other +
           ": a sample's name ends at the first dot (WebDataset): rename it, or choose members with --image-member and "
           "--label-member";
  }
  return what + (sample.other.empty() ? "" : ", but " + sample.other) +
         " (members of a sample follow one another: `tar --sort=name` writes them so)";
}

bool WebReader::is_image(const std::string& extension) const {
  return members_.image.empty() ? is_image_extension(extension) : extension == members_.image;
}

void WebReader::add_label(const TarMember& member, WebSample& sample) {
  if (has_label_) sample.error = "it has two labels";
  has_label_ = true;
  const auto bytes = tar_.read(member).first(std::min(member.bytes, kMaxLabelBytes));
  std::string text(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  try {
    if (!members_.keys.empty()) text = json_label(text, members_.keys);
  } catch (const DataError& error) {
    sample.error = "its ." + members_.label + ": " + error.what();
    return;
  }
  if (const auto label = labels_.find(text)) {
    sample.label = *label;
  } else {
    const std::string found = text.size() <= 64 ? " " + json_quoted(utf8_text(text)) : "";
    sample.error = "its ." + members_.label + found + labels_.expected();
  }
}

void WebReader::add(const TarMember& member, const std::string& extension, WebSample& sample) {
  if (member.is_link && (is_image(extension) || extension == members_.label)) {
    sample.error = "its ." + extension + " is a link: write the tar file with --dereference --hard-dereference";
  } else if (is_image(extension)) {
    if (has_image_) sample.error = "it has two images";
    if (member.bytes > kMaxImageBytes) sample.error = "it has an image of more than 1 GiB";
    has_image_ = true;
    if (!sample.error.empty()) return;
    const auto bytes = tar_.read(member);
    sample.image.assign(bytes.begin(), bytes.end());
  } else if (extension == members_.label) {
    add_label(member, sample);
  } else {
    sample.other = member.name.substr(member.name.rfind('/') + 1);
  }
}

}  // namespace mn::data

#include "data/index_links.hpp"

#include <optional>

namespace mn::data {
namespace {

struct Link {
  H5L_type_t type = H5L_TYPE_HARD;
  std::string target = {};  // path of a soft or external link's target
  std::string file = {};    // of an external link's target
};

std::optional<Link> link_at(hid_t file, const std::string& path) {
  H5L_info_t info;
  if (H5Lget_info(file, path.c_str(), &info, H5P_DEFAULT) < 0) return std::nullopt;
  Link link{.type = info.type};
  if (info.type != H5L_TYPE_SOFT && info.type != H5L_TYPE_EXTERNAL) return link;
  std::string value(info.u.val_size + 1, '\0');
  const bool is_read = H5Lget_val(file, path.c_str(), value.data(), value.size(), H5P_DEFAULT) >= 0;
  link.target = is_read ? value.c_str() : "?";
  if (info.type == H5L_TYPE_SOFT) return link;
  const char* target = nullptr;
  const char* object = nullptr;
  unsigned flags = 0;
  const bool is_known = is_read && H5Lunpack_elink_val(value.data(), info.u.val_size, &flags, &target, &object) >= 0;
  link.file = is_known ? target : "the other file";
  link.target = is_known ? object : "?";
  return link;
}

std::string joined(std::string group, const std::string& rest) {
  while (group.ends_with('/')) group.pop_back();
  return group + rest;
}

/// A link on the path of the dataset.
struct Met {
  std::string path;
  Link link;
  std::string rest;  // of the dataset's path, behind the link
};

/// "is a link …" for the dataset itself, or "is behind /g, a link …".
std::string is_link(const std::string& dataset, const Met& met, const std::string& what) {
  return (met.path == dataset ? "is a " : "is behind " + met.path + ", a ") + what;
}

/// The first link of `path` that is not hard. Sets `present` to the length of the part of the path that is there.
std::optional<Met> first_link(hid_t file, const std::string& path, std::size_t& present) {
  present = 0;
  for (std::size_t end = path.find('/', 1);; end = path.find('/', end + 1)) {
    const std::string part = path.substr(0, end);
    const auto link = link_at(file, part);
    if (!link) return std::nullopt;
    if (link->type == H5L_TYPE_SOFT || link->type == H5L_TYPE_EXTERNAL) {
      return Met{part, *link, end == std::string::npos ? "" : path.substr(end)};
    }
    present = part.size();
    if (end == std::string::npos) return std::nullopt;
  }
}

}  // namespace

LinkFault fault_of_links(hid_t file, const std::string& dataset) {
  constexpr int kMaxSoftLinks = 16;  // as HDF5
  std::string path = dataset;
  std::size_t target_end = 0;  // of the last soft link's target, in `path`
  std::optional<Met> last;     // the last soft link
  for (int i = 0; i <= kMaxSoftLinks; ++i) {
    std::size_t present = 0;
    const std::optional<Met> met = first_link(file, path, present);
    if (!met) {
      if (!last || present >= target_end) return {};
      return {is_link(dataset, *last, "soft link to " + last->link.target + ", which is not there")};
    }
    if (met->link.type == H5L_TYPE_EXTERNAL) {
      return {is_link(dataset, *met,
                      "link to another file: index " + met->link.file + " (" + joined(met->link.target, met->rest) +
                          ") instead"),
              true};
    }
    const std::string group = met->path.substr(0, met->path.rfind('/') + 1);
    path = met->link.target.starts_with('/') ? met->link.target : group + met->link.target;
    while (path.size() > 1 && path.ends_with('/')) path.pop_back();
    target_end = path.size();
    path = joined(path, met->rest);
    last = met;
  }
  return {is_link(dataset, *last, "soft link to " + last->link.target + ", which leads back to itself")};
}

}  // namespace mn::data

#include "data/index_problems.hpp"

#include <algorithm>
#include <optional>
#include <vector>

#include <mn/core/text.hpp>

namespace mn::data {
namespace {

namespace fs = std::filesystem;
using Names = std::vector<std::string>;

constexpr std::size_t kMaxNamed = 8;

std::string bits_text(hid_t type) {
  const std::size_t bits = 8 * H5Tget_size(type), used = H5Tget_precision(type);
  return std::to_string(bits) + (used == bits ? "" : " of " + std::to_string(used) + " bits");
}

std::string float_text(hid_t type) {
  constexpr std::size_t kBFloat16Mantissa = 7;
  std::size_t sign = 0, exponent = 0, exponent_bits = 0, mantissa = 0, mantissa_bits = 0;
  (void)H5Tget_fields(type, &sign, &exponent, &exponent_bits, &mantissa, &mantissa_bits);
  return (mantissa_bits == kBFloat16Mantissa ? "bfloat" : "float") + bits_text(type);
}

Names members_of(hid_t type) {
  Names names;
  const int count = std::max(H5Tget_nmembers(type), 0);
  for (unsigned i = 0; i < static_cast<unsigned>(count) && i < kMaxNamed; ++i) {
    char* name = H5Tget_member_name(type, i);
    names.emplace_back(name == nullptr ? "?" : name);
    (void)H5free_memory(name);
  }
  if (static_cast<std::size_t>(count) > kMaxNamed) names.emplace_back("…");
  return names;
}

struct DatasetNames {
  Names names;
  std::size_t links = 0;
};

Names datasets_of(hid_t file) {
  const auto take = [](hid_t group, const char* name, const H5L_info_t* info, void* out) -> herr_t {
    constexpr std::size_t kMaxLinks = 1000;
    auto& found = *static_cast<DatasetNames*>(out);
    if (info->type == H5L_TYPE_HARD) {
      const hid_t object = H5Oopen(group, name, H5P_DEFAULT);
      if (object >= 0 && H5Iget_type(object) == H5I_DATASET) found.names.push_back(std::string("/") + name);
      if (object >= 0) (void)H5Oclose(object);
    }
    return ++found.links == kMaxLinks || found.names.size() > kMaxNamed ? 1 : 0;
  };
  DatasetNames found;
  (void)H5Lvisit(file, H5_INDEX_NAME, H5_ITER_NATIVE, take, &found);
  if (found.names.size() > kMaxNamed) found.names.back() = "…";
  return std::move(found.names);
}

struct Link {
  H5L_type_t type = H5L_TYPE_HARD;
  std::string target = {};  // path of the target of a soft or external link
  std::string file = {};    // file of the target of an external link
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

struct Met {
  std::string path;
  Link link;
  std::string rest;  // the rest of the dataset's path, after the link
};

/// Returns "is a link …" if the dataset itself is the link, or "is behind /g, a link …" if the group /g is the link.
std::string is_link(const std::string& dataset, const Met& met, const std::string& what) {
  return (met.path == dataset ? "is a " : "is behind " + met.path + ", a ") + what;
}

/// Finds the first soft or external link on `path`. `present` becomes the length of the existing part before the link.
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

struct LinkFault {
  std::string text;           ///< "is behind /g, a link to another file: …"; empty: no link is at fault
  bool is_elsewhere = false;  ///< the dataset is in another file
};

/// The first fault of the links on the path of `dataset`: a link to another file, a soft link without a target, or soft
/// links in a circle.
LinkFault fault_of_links(hid_t file, const std::string& dataset) {
  constexpr int kMaxSoftLinks = 16;  // HDF5's own limit
  std::string path = dataset;
  std::size_t target_end = 0;  // end of the last soft link's target in `path`
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

}  // namespace

std::string type_text(hid_t type) {
  const H5T_class_t kind = H5Tget_class(type);
  if (kind == H5T_INTEGER) return (H5Tget_sign(type) == H5T_SGN_NONE ? "uint" : "int") + bits_text(type);
  if (kind == H5T_FLOAT) return float_text(type);
  if (kind == H5T_STRING) return "text";
  if (kind == H5T_ENUM) return "an enumeration of " + join(members_of(type));
  if (kind == H5T_VLEN) return "arrays of different lengths";
  if (kind == H5T_ARRAY) return "arrays within each element";
  if (kind == H5T_REFERENCE) return "references";
  if (kind != H5T_COMPOUND) return "elements of a type of its own";
  return members_of(type) == Names{"r", "i"} ? "complex numbers" : "records of " + join(members_of(type));
}

std::string why_not_opened(hid_t file, const std::string& dataset) {
  const LinkFault fault = fault_of_links(file, dataset);
  if (fault.is_elsewhere) return fault.text;
  const H5 access(H5Pcreate(H5P_LINK_ACCESS), dataset);
  const auto refuse = [](const char*, const char*, const char*, const char*, unsigned*, hid_t, void*) -> herr_t {
    return -1;
  };
  h5_check(H5Pset_elink_cb(access.get(), refuse, nullptr), dataset);
  const hid_t object = H5Oopen(file, dataset.c_str(), access.get());
  const bool is_group = object >= 0 && H5Iget_type(object) == H5I_GROUP;
  if (object >= 0) (void)H5Oclose(object);
  if (H5Oexists_by_name(file, dataset.c_str(), access.get()) > 0 && !is_group) return {};
  const Names names = datasets_of(file);
  const std::string absent = fault.text.empty() ? "is not there" : fault.text;
  return (is_group ? "is a group, not a dataset" : absent) + "; the file has " +
         (names.empty() ? "no datasets" : join(names));
}

std::string remedy_of(const std::string& error) {
  if (error.find("already open for") != std::string::npos) {
    return ". A program writes it now, or did not close it: wait for its end. If it was killed, `h5clear -s FILE` "
           "opens the file; what was not flushed is lost, so look at the data";
  }
  const auto says = [&](std::string_view part) { return error.find(part) != std::string::npos; };
  if (says("truncated file")) return ". The file is cut off: copy it again, or write it again";
  // libhdf5 says "addr overflow" if, by its header, the file ends before its objects do.
  if (says("addr overflow")) return ". Its writer was killed before it closed the file: write it again";
  if (says("signature not found")) return ". It is not an HDF5 file: look at it, or fetch it again";
  if (!says("version number")) return {};
  unsigned major = 0, minor = 0, release = 0;
  (void)H5get_libversion(&major, &minor, &release);
  return ". A newer HDF5 than " + std::to_string(major) + "." + std::to_string(minor) + "." + std::to_string(release) +
         ", which mn has, wrote it, or it is damaged: write it again with libver=(\"earliest\", \"v110\")";
}

std::string virtual_text(hid_t creation, const fs::path& file) {
  std::size_t count = 0;
  (void)H5Pget_virtual_count(creation, &count);
  Names sources, absent;
  for (std::size_t i = 0; i < count; ++i) {
    std::string source(std::max<ssize_t>(H5Pget_virtual_filename(creation, i, nullptr, 0), 0), '\0');
    (void)H5Pget_virtual_filename(creation, i, source.data(), source.size() + 1);
    if (std::ranges::find(sources, source) != sources.end() || source == ".") continue;
    sources.push_back(source);
    std::error_code error;
    const bool is_pattern = source.find('%') != std::string::npos;
    if (!is_pattern && !fs::exists(file.parent_path() / source, error)) absent.push_back(source);
  }
  if (sources.size() > kMaxNamed) {
    sources.resize(kMaxNamed);
    sources.emplace_back("…");
  }
  return "is a virtual dataset" + (sources.empty() ? "" : " of parts of " + join(sources)) +
         (absent.empty() ? "" : ", of which " + absent.front() + " is missing: HDF5 gives fill values in its place") +
         ": index the files that hold the data, one after another, or write the data to one file";
}

}  // namespace mn::data

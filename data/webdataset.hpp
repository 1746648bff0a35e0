/// Reads the samples of a WebDataset. A sample is consecutive members of a tar file with equal names up to the first
/// dot. Source: the WebDataset library's group_by_keys.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "data/tar.hpp"

namespace mn::data {

/// Which members of a sample are its image and its label, by the members' names after the sample's name and a dot, in
/// lower case.
struct WebMembers {
  std::string image = {};              ///< empty: any extension of an image, such as "jpg"
  std::string label = "cls";           ///< a member that holds a whole number as text, or a JSON document
  std::vector<std::string> keys = {};  ///< where the label is in the JSON: a key, a key in its value, …

  /// From --image-member and --label-member: "MEMBER" or "MEMBER:KEY.KEY…". Throws UsageError for other texts.
  [[nodiscard]] static WebMembers parse(const std::string& image, const std::string& label);
};

/// An image and a label. If `error` is not empty, the sample is unusable, and the other members may be incomplete.
struct WebSample {
  std::string key = {};  ///< the members' name up to the first dot of its last part
  std::uint64_t at = 0;  ///< where the sample's first member begins in the tar file
  std::vector<std::byte> image = {};
  std::int32_t label = 0;
  std::string error = {};
  std::string other = {};  ///< name of the last member that is neither image nor label
};

/// Goes through the samples of a tar file. Throws DataError if the tar file itself is damaged.
class WebReader {
 public:
  /// Errors call the file `name`, or `path` if `name` is empty.
  explicit WebReader(const std::filesystem::path& path, WebMembers members = {}, std::string name = {})
      : tar_(path, std::move(name)), members_(std::move(members)) {}
  [[nodiscard]] std::uint64_t file_bytes() const noexcept { return tar_.file_bytes(); }
  /// Reads the next sample into `sample`, and reuses its memory. False at the end.
  bool next(WebSample& sample);

 private:
  [[nodiscard]] bool is_image(const std::string& extension) const;
  void add(const TarMember& member, const std::string& extension, WebSample& sample);
  void add_label(const TarMember& member, WebSample& sample);
  /// Text that names the members that a sample lacks, and a likely reason; empty if the sample is complete.
  [[nodiscard]] std::string lack(const WebSample& sample) const;

  TarReader tar_;
  WebMembers members_;
  std::optional<TarMember> ahead_;
  bool has_begun_ = false;
  bool has_image_ = false;  // whether the current sample has an image
  bool has_label_ = false;
};

}  // namespace mn::data

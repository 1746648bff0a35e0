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

#include "data/label_list.hpp"
#include "data/tar.hpp"

namespace mn::data {

/// Which members of a sample are the image and the label, by extension: the part of the member's name after the
/// sample's name and a dot, in lower case.
struct WebMembers {
  std::string image = {};                     ///< empty: any usual extension, such as "jpg"
  std::string label = "cls";                  ///< of a whole number as text, or of a JSON document
  std::vector<std::string> keys = {};         ///< path of the label in the JSON: a key, a key in this key's value, …
  std::vector<std::string> class_names = {};  ///< names of the classes, label 0 first; a label may be one of them

  /// Parses the values of --image-member ("MEMBER") and --label-member ("MEMBER" or "MEMBER:KEY.KEY…"). A dot before
  /// MEMBER is left out. Throws UsageError for other texts.
  [[nodiscard]] static WebMembers parse(const std::string& image, const std::string& label);
};

/// An image and a label. If `error` is not empty, the sample is unusable, and `image` and `label` may not be set.
struct WebSample {
  std::string key = {};  ///< path of the members up to the first dot of the file name
  std::uint64_t at = 0;  ///< offset of the sample's first member in the tar file
  std::vector<std::byte> image = {};
  std::int32_t label = 0;
  std::string error = {};
  std::string other = {};  ///< name of the last member that is neither image nor label
};

/// Reads the samples of a tar file in order. Functions throw DataError if the tar file itself is damaged.
class WebReader {
 public:
  /// Error texts call the tar file `name` (empty: `path`).
  explicit WebReader(const std::filesystem::path& path, WebMembers members = {}, std::string name = {})
      : tar_(path, std::move(name)), members_(std::move(members)), labels_(members_.class_names) {}
  [[nodiscard]] std::uint64_t file_bytes() const noexcept { return tar_.file_bytes(); }
  /// Reads the next sample into `sample`, and reuses its memory. Returns false at the end of the tar file.
  bool next(WebSample& sample);

 private:
  [[nodiscard]] bool is_image(const std::string& extension) const;
  void add(const TarMember& member, const std::string& extension, WebSample& sample);
  void add_label(const TarMember& member, WebSample& sample);
  /// Names the members that a sample lacks, and a likely reason; empty if it is complete.
  [[nodiscard]] std::string lack(const WebSample& sample) const;

  TarReader tar_;
  WebMembers members_;
  Labels labels_;
  std::optional<TarMember> ahead_;
  bool has_begun_ = false;
  bool has_image_ = false;
  bool has_label_ = false;
};

}  // namespace mn::data

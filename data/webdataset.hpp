/// Reads the samples of a WebDataset. A sample is consecutive members of a tar file with equal names up to the first
/// dot. Source: the WebDataset library's group_by_keys.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "data/tar.hpp"

namespace mn::data {

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
  explicit WebReader(const std::filesystem::path& path) : tar_(path) {}
  [[nodiscard]] std::uint64_t file_bytes() const noexcept { return tar_.file_bytes(); }
  /// Reads the next sample into `sample`, and reuses its memory. False at the end.
  bool next(WebSample& sample);

 private:
  void add(const TarMember& member, const std::string& extension, WebSample& sample);
  /// Text that names the members that a sample lacks, and a likely reason; empty if the sample is complete.
  [[nodiscard]] std::string lack(const WebSample& sample) const;

  TarReader tar_;
  std::optional<TarMember> ahead_;
  bool has_begun_ = false;
  bool has_image_ = false;  // whether the current sample has an image
  bool has_label_ = false;
};

}  // namespace mn::data

#include <mn/trainer/extensions/appended_file.hpp>

#include <algorithm>
#include <span>
#include <system_error>

#include <mn/core/file.hpp>

namespace mn::extensions {

void AppendedFile::write() {
  if (waiting_.empty()) return;
  std::error_code none;
  if (!std::filesystem::exists(path_, none)) {
    make_folders(path_.parent_path());
    File(path_, File::Mode::kNew);
  }
  File file(path_, File::Mode::kUpdate);
  const std::uint64_t size = file.size();
  if (!bytes_ && size > 0) {
    char last = '\0';
    file.read_at(size - 1, std::as_writable_bytes(std::span(&last, 1)));
    if (last != '\n') waiting_.insert(0, "\n");
  }
  bytes_ = std::min(bytes_.value_or(size), size);  // without a part of a record that a failed write may have left
  file.replace_end(*bytes_, "", waiting_);
  *bytes_ += waiting_.size();
  waiting_.clear();
}

}  // namespace mn::extensions

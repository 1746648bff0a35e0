/// A file opened in libhdf5 that reports the addresses of its datasets' chunks.
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <vector>

#include <mn/data/chunk_list.hpp>
#include <mn/data/hdf5.hpp>

namespace mn::data {

/// Used under an H5Lock.
class ChunkedFile {
 public:
  /// Opens the file to read. Throws DataError.
  explicit ChunkedFile(const std::filesystem::path& path);
  ~ChunkedFile();
  ChunkedFile(const ChunkedFile&) = delete;
  ChunkedFile& operator=(const ChunkedFile&) = delete;

  [[nodiscard]] hid_t get() const noexcept { return file_.get(); }
  /// The address of the chunk that begins at these indices of a dataset, looked up in the dataset's index in O(log
  /// chunks). kNotStored if the chunk was never written, or can't be found.
  [[nodiscard]] StoredChunk chunk_at(hid_t dataset, const std::vector<hsize_t>& corner);

  struct Notes {
    bool is_noting = false;  ///< reads of raw data are noted and not done
    std::uint64_t address = kNotStored;
    std::uint64_t bytes = 0;
  };

 private:
  std::unique_ptr<Notes> notes_ = std::make_unique<Notes>();
  H5 driver_;
  H5 file_;
};

}  // namespace mn::data

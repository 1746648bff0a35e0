/// Finds the addresses of the chunks of datasets in an HDF5 file.
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <vector>

#include <mn/data/chunk_list.hpp>
#include <mn/data/hdf5.hpp>

namespace mn::data {

/// An HDF5 file opened by libhdf5. Hold an H5Lock for every call, constructor and destructor included.
class ChunkedFile {
 public:
  /// Throws a DataError with the reason if the file can't be opened for reading.
  explicit ChunkedFile(const std::filesystem::path& path);
  ~ChunkedFile();

  [[nodiscard]] hid_t get() const noexcept { return file_.get(); }
  /// Returns the chunk of `dataset` whose first element has the indices `corner`, in O(log chunks). The address is
  /// kNotStored if the chunk was never written or can't be found.
  [[nodiscard]] StoredChunk chunk_at(hid_t dataset, const std::vector<hsize_t>& corner);

  struct Notes {
    bool is_noting = false;  ///< if true, a read of raw data only stores its address and length here
    std::uint64_t address = kNotStored;
    std::uint64_t bytes = 0;
  };

 private:
  std::unique_ptr<Notes> notes_ = std::make_unique<Notes>();
  H5 driver_;
  H5 file_;
};

}  // namespace mn::data

/// An owner of HDF5 handles, and the few HDF5 calls that shards and manifests need.
#pragma once

#include <filesystem>
#include <mutex>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <hdf5.h>

#include <mn/core/buffer.hpp>

namespace mn::data {

/// Owns one reference to an HDF5 object of any kind.
class H5 {
 public:
  H5() noexcept = default;
  /// Takes ownership of `id`. If `id` is negative, throws a DataError: `what`, a colon, and HDF5's reason.
  H5(hid_t id, const std::string& what);
  ~H5() { reset(); }
  H5(H5&& other) noexcept : id_(std::exchange(other.id_, H5I_INVALID_HID)) {}
  H5& operator=(H5&& other) noexcept {
    if (this != &other) {
      reset();
      id_ = std::exchange(other.id_, H5I_INVALID_HID);
    }
    return *this;
  }
  [[nodiscard]] hid_t get() const noexcept { return id_; }
  void reset() noexcept;
  /// Closes the object now. Throws a DataError like the constructor's if the data can't be written to the file.
  void close(const std::string& what);

 private:
  hid_t id_ = H5I_INVALID_HID;
};

/// Throws a DataError like the constructor of H5 if `status` is negative.
void h5_check(herr_t status, const std::string& what);

/// Hold an H5Lock around every use of libhdf5, because most systems build libhdf5 without thread safety. While it is
/// held, HDF5 prints no errors, and loads no plug-ins, because a file could name a plug-in to run.
class H5Lock {
 public:
  H5Lock();
  ~H5Lock();

 private:
  std::lock_guard<std::mutex> lock_;
  unsigned plugins_ = 0;  // the kinds of plug-ins that ~H5Lock() permits again
};

/// HDF5's little-endian type for integers and floats of 32 and 64 bits, in files and in memory (mn runs on
/// little-endian machines). Throws ArgumentError for all other dtypes.
[[nodiscard]] hid_t h5_stored_type(DType dtype);
/// A new HDF5 type for any dtype. float16 is stored as numpy stores it, bool as h5py stores it, and bfloat16 as a
/// uint16 with the same bits.
[[nodiscard]] H5 h5_element_type(DType dtype);

/// Settings to open a file without HDF5's file locks, which some network file systems lack. No lock is needed: a file
/// of mn has one writer, and gets its name by rename(2) when it is complete.
[[nodiscard]] H5 h5_file_access(const std::string& what);
/// Creates a file that begins with `user_block` bytes for the program. Datasets begin at multiples of `alignment`.
[[nodiscard]] H5 h5_create_file(const std::filesystem::path& path, hsize_t user_block, hsize_t alignment = 1);
[[nodiscard]] H5 h5_open_bytes(std::string_view bytes, const std::string& what);

/// Opens a dataset in the same file as `group`; follows no link to another file. Throws as h5_check() does.
[[nodiscard]] H5 h5_open_dataset(hid_t group, const char* name, const std::string& what);

void h5_write_attribute(hid_t object, const char* name, const std::string& text);
void h5_write_attribute(hid_t object, const char* name, std::int64_t number);
[[nodiscard]] std::string h5_read_text(hid_t object, const char* name);
/// Throws DataError unless the attribute is one number.
[[nodiscard]] std::int64_t h5_read_number(hid_t object, const char* name);

/// Settings to create a dataset that records no times, so that equal content gives equal files.
[[nodiscard]] H5 h5_dataset_creation(const std::string& what);

/// Writes a dataset of strings, padded to equal lengths, because HDF5's variable-length strings are not thread-safe.
void h5_write_strings(hid_t group, const char* name, const std::vector<std::string>& strings);
[[nodiscard]] std::vector<std::string> h5_read_strings(hid_t group, const char* name);

/// Writes a whole dataset of numbers with the extents `shape`; {} means one dimension.
void h5_write_array(hid_t group, const char* name, ConstBufferView data, std::vector<hsize_t> shape = {});
/// Reads a whole dataset of numbers. Throws DataError unless it has the dtype of `data`, and `data.count` elements.
void h5_read_array(hid_t group, const char* name, BufferView data);
[[nodiscard]] std::int64_t h5_count(hid_t group, const char* name);
/// Reads a whole dataset into a vector or string. Throws DataError unless the dtypes of the elements are equal.
template <class Values>
[[nodiscard]] Values h5_read_all(hid_t group, const char* name) {
  Values values;
  values.resize(h5_count(group, name));
  h5_read_array(group, name, values);
  return values;
}

}  // namespace mn::data

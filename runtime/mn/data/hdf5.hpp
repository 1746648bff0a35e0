/// An owner for HDF5 handles, and the few calls that shards and manifests need.
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
  /// Takes `id` over; throws DataError "what: HDF5's own reason" if it is negative.
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
  /// Closes it now; throws DataError "what: HDF5's own reason" if what was written can't reach the file.
  void close(const std::string& what);

 private:
  hid_t id_ = H5I_INVALID_HID;
};

/// Throws DataError "what: HDF5's own reason" if `status` is negative.
void h5_check(herr_t status, const std::string& what);

/// Held around every use of libhdf5, which is built without threads on most systems. Silences its own error printing,
/// and keeps it from loading plug-ins, whose code a file could ask for.
class H5Lock {
 public:
  H5Lock();
  ~H5Lock();
  H5Lock(const H5Lock&) = delete;
  H5Lock& operator=(const H5Lock&) = delete;

 private:
  std::lock_guard<std::mutex> lock_;
  unsigned plugins_ = 0;  // which kinds the program lets it load
};

/// HDF5's little-endian type for integers and floats of 32 and 64 bits, in files and, as this machine is little endian, in
/// memory. Throws ArgumentError for all others.
[[nodiscard]] hid_t h5_stored_type(DType dtype);
/// A type of one's own for any dtype: 16-bit floats as numpy reads them (bfloat16 as its bits, uint16), bool as h5py
/// does. `is_unsigned`: for the unsigned integer of the same size.
[[nodiscard]] H5 h5_element_type(DType dtype, bool is_unsigned = false);
/// The dtype of a stored type; DataError that names `what` for any other type.
[[nodiscard]] DType h5_dtype(hid_t type, const std::string& what);

/// Settings to open a file with: no locks of HDF5's own, which some network file systems do not have. The files here
/// have one writer each, and appear by rename(2).
[[nodiscard]] H5 h5_file_access(const std::string& what);
/// A file whose bytes are in memory, to read from.
[[nodiscard]] H5 h5_open_bytes(std::string_view bytes, const std::string& what);

/// A dataset of this file; links to other files are errors. Throws DataError "what: HDF5's own reason".
[[nodiscard]] H5 h5_open_dataset(hid_t group, const char* name, const std::string& what);

/// Attributes of `object`.
void h5_write_attribute(hid_t object, const char* name, const std::string& text);
void h5_write_attribute(hid_t object, const char* name, std::span<const std::int64_t> numbers);
[[nodiscard]] std::string h5_read_text(hid_t object, const char* name);
[[nodiscard]] std::vector<std::int64_t> h5_read_numbers(hid_t object, const char* name);

/// Settings to create a dataset with: no times, so that equal content gives equal files.
[[nodiscard]] H5 h5_dataset_creation(const std::string& what);

/// A whole dataset of strings of one fixed length; variable-length strings are slow and unsafe with threads.
void h5_write_strings(hid_t group, const char* name, const std::vector<std::string>& strings);
[[nodiscard]] std::vector<std::string> h5_read_strings(hid_t group, const char* name);

/// A whole dataset of numbers; `shape` in elements.
void h5_write_array(hid_t group, const char* name, ConstBufferView data, std::span<const hsize_t> shape);
/// Throws DataError unless it has the dtype of `data` and `data.count` elements.
void h5_read_array(hid_t group, const char* name, BufferView data);
[[nodiscard]] std::int64_t h5_count(hid_t group, const char* name);

}  // namespace mn::data

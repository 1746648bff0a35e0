/// What errors say of HDF5 datasets that an index cannot take. Used under an H5Lock.
#pragma once

#include <filesystem>
#include <string>

#include <mn/data/hdf5.hpp>

namespace mn::data {

/// What the elements are: "uint16", "text", "records of a, b".
[[nodiscard]] std::string type_text(hid_t type);

/// Why `dataset` of an open file can't be opened, where more can be said than HDF5 does: it lies in another file, it is
/// a group, or others are there. Empty if not.
[[nodiscard]] std::string why_not_opened(hid_t file, const std::string& dataset);

/// What to do about an error of HDF5's with this text, for its end; empty if nothing is known.
[[nodiscard]] std::string remedy_of(const std::string& error);

/// Which files a virtual dataset is made of, and what to do. `file`: where it is.
[[nodiscard]] std::string virtual_text(hid_t creation, const std::filesystem::path& file);

}  // namespace mn::data

/// Explains why `mnshard index` can't use an HDF5 dataset. Hold an H5Lock during each call of these functions.
#pragma once

#include <filesystem>
#include <string>

#include <mn/data/hdf5.hpp>

namespace mn::data {

/// The type of elements as text, such as "uint16", "text" or "records of a, b".
[[nodiscard]] std::string type_text(hid_t type);

/// Why `dataset` of an open file can't be opened: a link is at fault, it is a group, or the name is wrong (the text
/// then lists the file's datasets). Empty if mn knows no more than HDF5's error says.
[[nodiscard]] std::string why_not_opened(hid_t file, const std::string& dataset);

/// The remedy for an HDF5 error, to be appended to its text `error`; empty if unknown.
[[nodiscard]] std::string remedy_of(const std::string& error);

/// Names the source files of a virtual dataset in `file`, and the remedy.
[[nodiscard]] std::string virtual_text(hid_t creation, const std::filesystem::path& file);

}  // namespace mn::data

/// Explanations of errors in HDF5 datasets that an index can't take. Used under an H5Lock.
#pragma once

#include <filesystem>
#include <string>

#include <mn/data/hdf5.hpp>

namespace mn::data {

/// The type of the elements: "uint16", "text", "records of a, b".
[[nodiscard]] std::string type_text(hid_t type);

/// Why `dataset` of an open file can't be opened, if mn knows more than HDF5 says: a link at fault, a group, or a wrong
/// name (lists the datasets). Empty otherwise.
[[nodiscard]] std::string why_not_opened(hid_t file, const std::string& dataset);

/// The remedy for an HDF5 error with this text, to append to it; empty if none is known.
[[nodiscard]] std::string remedy_of(const std::string& error);

/// The source files of a virtual dataset in `file`, and the remedy.
[[nodiscard]] std::string virtual_text(hid_t creation, const std::filesystem::path& file);

}  // namespace mn::data

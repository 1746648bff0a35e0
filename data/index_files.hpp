/// `mnshard index`: a manifest over HDF5 files that stay as and where they are.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include <mn/data/hdf5_table.hpp>

namespace mn::data {

/// One field of the samples and the path of its HDF5 dataset in each file.
struct IndexField {
  std::string name;
  std::string path;
};

/// From "NAME=/group/dataset". Throws UsageError for other texts.
[[nodiscard]] IndexField parse_index_field(const std::string& text);

/// The table of these files, for a manifest in `folder`, which exists. Throws DataError of one line that names the file
/// and what is wrong: a dataset that is not there, of other samples than in the first file, of a type that no tensor
/// has, with a filter that can't be undone, or outside of the file.
[[nodiscard]] Hdf5Table index_files(const std::vector<std::filesystem::path>& files,
                                    const std::vector<IndexField>& fields, const std::filesystem::path& folder,
                                    const std::string& split);

/// The same samples, with that field's numbers as classes, of which there are one more than the largest. Reads the
/// field of all files. Throws UsageError if there is no such field or it holds no integers, DataError if one is
/// negative.
[[nodiscard]] Hdf5Table with_classes(const Hdf5Table& table, const std::string& name);

/// What reading a field costs as its file is laid out, one line; if it costs much, what would be better.
[[nodiscard]] std::string cost_of(const Hdf5Table& table, std::size_t field);

}  // namespace mn::data

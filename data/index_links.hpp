/// Links on the path of an HDF5 dataset that an index can't follow. Used under an H5Lock.
#pragma once

#include <string>

#include <mn/data/hdf5.hpp>

namespace mn::data {

struct LinkFault {
  std::string text;           ///< "is behind /g, a link to another file: …"; empty: no link is at fault
  bool is_elsewhere = false;  ///< the dataset is in another file
};

/// The first fault of the links on the path of `dataset`: a link to another file, a soft link without a target, or soft
/// links in a circle.
[[nodiscard]] LinkFault fault_of_links(hid_t file, const std::string& dataset);

}  // namespace mn::data

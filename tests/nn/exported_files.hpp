/// The exported models of tests/nn/models, and archives that were changed.
#pragma once

#include <map>
#include <string>

namespace mn::test {

/// The bytes of tests/nn/models/NAME.
std::string model_file(const std::string& name);

/// The records of an archive by name, without the archive's own folder.
using Records = std::map<std::string, std::string>;

/// The records of the model NAME.pt2.
Records records_of(const std::string& name);

/// An archive of these records, with right checksums, as torch would write it; all fields of zip64 are used.
std::string archive_of(const Records& records);

}  // namespace mn::test

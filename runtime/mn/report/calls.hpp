/// Who waits for whom, from the last calls that each rank of a job wrote (comm/flight_recorder.hpp).
#pragma once

#include <filesystem>
#include <string>

namespace mn {

/// Returns one line for each call that only some ranks have entered: the call's name, number, elements and begin, and
/// the activity of the missing ranks. A rank that waits for a message has a line of its own. If no rank is in a call,
/// returns a single line. Reads FOLDER/rank-*.jsonl, or FOLDER/calls/rank-*.jsonl if FOLDER is a job's --out. A rank
/// whose file is missing or empty has left no record. Local. Throws DataError if no rank has left a record, or a file
/// is damaged before its last line.
[[nodiscard]] std::string describe_calls(const std::filesystem::path& folder);

}  // namespace mn

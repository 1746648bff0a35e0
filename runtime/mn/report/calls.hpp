/// Finds out which ranks wait for which other ranks, from the records that the ranks of a job wrote of their last calls
/// (comm/calls/flight_recorder.hpp).
#pragma once

#include <filesystem>
#include <string>

namespace mn {

/// Returns one line for each call that only some ranks have entered. The line has the call's name, number, elements and
/// start time, and says what the missing ranks do. Each rank that waits for a message has a line, too. If no rank is in
/// a call, returns a single line that says so. Reads FOLDER/rank-*.jsonl, or FOLDER/calls/rank-*.jsonl if FOLDER is a
/// job's --out. A rank whose file is missing or empty has left no record. Not collective. Throws DataError if no rank
/// has left a record, or if a file is damaged before its last line.
[[nodiscard]] std::string describe_calls(const std::filesystem::path& folder);

}  // namespace mn

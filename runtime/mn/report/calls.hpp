/// Finds out from the ranks' records of their last calls (comm/calls/flight_recorder.hpp) who waits for whom.
#pragma once

#include <filesystem>
#include <string>

namespace mn {

/// Not collective: returns a line for each call in which ranks wait: its name, number and elements, how long ranks have
/// waited, and what the missing ranks do; and a line for each rank that waits for a message. If no rank is in a call, a
/// single line says so. Reads FOLDER/rank-*.jsonl, or FOLDER/calls/rank-*.jsonl if FOLDER is a job's --out. A rank
/// without a file, or with an empty one, has left no record. Throws DataError if no rank has left a record, or if a
/// file is damaged before its last line.
[[nodiscard]] std::string describe_calls(const std::filesystem::path& folder);

}  // namespace mn

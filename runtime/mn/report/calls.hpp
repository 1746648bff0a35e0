/// Finds out which ranks wait for which ranks, from the ranks' files of last calls (comm/calls/flight_recorder.hpp).
#pragma once

#include <filesystem>
#include <string>

namespace mn {

/// Not collective. Returns a text with one line for each call in which ranks wait, and one line for each rank that
/// waits for a message. The line of a call has its name, number and elements, how long ranks have waited, and what the
/// missing ranks do. If no rank is in a call, the text is a single line that says so. Reads FOLDER/rank-*.jsonl, or
/// FOLDER/calls/rank-*.jsonl if FOLDER is the --out of a job. If a rank has no file, or an empty file, it has left no
/// record. Throws DataError if no rank has left a record, or if a file is damaged before its last line.
[[nodiscard]] std::string describe_calls(const std::filesystem::path& folder);

}  // namespace mn

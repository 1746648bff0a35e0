/// Each rank of a job records its last calls of communicators (comm/calls/flight_recorder.hpp). The function below
/// finds out, from the records of all ranks, which ranks wait for which ranks.
#pragma once

#include <filesystem>
#include <string>

namespace mn {

/// Not collective: returns one line for each call in which ranks wait. The line has the call's name, number and
/// elements, and how long ranks have waited, and says what the missing ranks do. Each rank that waits for a message has
/// a line, too. If no rank is in a call, returns a single line that says so. Reads FOLDER/rank-*.jsonl, or
/// FOLDER/calls/rank-*.jsonl if FOLDER is a job's --out. A rank whose file is missing or empty has left no record.
/// Throws DataError if no rank has left a record, or if a file is damaged before its last line.
[[nodiscard]] std::string describe_calls(const std::filesystem::path& folder);

}  // namespace mn

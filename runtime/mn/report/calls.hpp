/// Who waits for whom, by the last calls that each rank of a job wrote (comm/flight_recorder.hpp).
#pragma once

#include <filesystem>
#include <string>

namespace mn {

/// A line for each call in which ranks are and others are not: its name, number, elements, since when, and what the
/// others do instead. One line if no rank is in a call. Reads FOLDER/rank-*.jsonl, or FOLDER/calls of a job's --out. A
/// rank without a file is one that left no record. Local. Throws DataError if there is none, or one is damaged before
/// its last line.
[[nodiscard]] std::string describe_calls(const std::filesystem::path& folder);

}  // namespace mn

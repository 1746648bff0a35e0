/// Who waits for whom, from the last calls that each rank of a job wrote (comm/flight_recorder.hpp).
#pragma once

#include <filesystem>
#include <string>

namespace mn {

/// One line per call that only some ranks have entered: its name, number, elements, begin, and what the missing ranks
/// do instead. One line in all if no rank is in a call. Reads FOLDER/rank-*.jsonl, or FOLDER/calls of a job's --out; a
/// rank without a file left no record. Local. Throws DataError if there is no file, or a file is damaged before its
/// last line.
[[nodiscard]] std::string describe_calls(const std::filesystem::path& folder);

}  // namespace mn

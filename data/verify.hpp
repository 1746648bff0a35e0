/// Verifies datasets: reads all their files.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include <mn/data/stored_table.hpp>

namespace mn::data {

/// Reads all blocks of all files, on `threads` threads. Compares all checksums, compares the files with the table, and
/// checks that class numbers are below num_classes. Returns an error text for each damage, in the order of the files.
/// Calls progress(done, total) after each part of the work, from one thread at a time.
[[nodiscard]] std::vector<std::string> verify_dataset(
    const StoredTable& table, int threads, const std::function<void(std::int64_t, std::int64_t)>& progress = {});

}  // namespace mn::data

/// The live tests of a job: messages, links, GPUs.
#pragma once

#include <chrono>
#include <cstddef>
#include <string>

#include <mn/comm/communicator.hpp>
#include <mn/core/watchdog.hpp>

#include "selftest/doctor_report.hpp"

namespace mn::selftest {

/// Collective: runs all tests and fills rank 0's report. `gpu_problem`: why this rank cannot use its GPU; empty if it
/// can, or has no GPU.
void test_job(Communicator& comm, const std::string& gpu_problem, Report& report, Watchdog& timer,
              std::chrono::milliseconds patience);

/// term() is the addend of `rank` for element i of a test sum, and sum_of_terms() the sum over `size` ranks. The sum is
/// below 2^24 for up to 500,000 ranks, so a float holds it exactly.
[[nodiscard]] float term(std::size_t i, int rank);
[[nodiscard]] float sum_of_terms(std::size_t i, int size);

}  // namespace mn::selftest

/// The self test's tests that need a running job: messages between ranks, links between nodes, and GPUs.
#pragma once

#include <chrono>
#include <cstddef>
#include <string>

#include <mn/comm/communicator.hpp>
#include <mn/core/watchdog.hpp>

#include "selftest/doctor_report.hpp"

namespace mn::selftest {

/// Collective: runs all tests, and fills rank 0's report. `gpu_problem` says why this rank cannot use its GPU.
void test_job(Communicator& comm, const std::string& gpu_problem, Report& report, Watchdog& timer,
              std::chrono::milliseconds patience);

/// The addend of `rank` in element i of a test sum, and the sum. Up to 500,000 ranks, a float holds it exactly.
[[nodiscard]] float term(std::size_t i, int rank);
[[nodiscard]] float sum_of_terms(std::size_t i, int size);

}  // namespace mn::selftest

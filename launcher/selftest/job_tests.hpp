/// The live tests of a job: messages, links, GPUs.
#pragma once

#include <chrono>
#include <string>

#include <mn/comm/communicator.hpp>

#include "selftest/doctor_report.hpp"
#include "selftest/part_timer.hpp"

namespace mn::selftest {

/// Collective: runs all tests and fills rank 0's report. `gpu_problem`: why this rank cannot use its GPU; empty if it
/// can, or has none.
void test_job(Communicator& comm, const std::string& gpu_problem, Report& report, PartTimer& timer,
              std::chrono::milliseconds patience);

}  // namespace mn::selftest

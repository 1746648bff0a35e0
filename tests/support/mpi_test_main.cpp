// main() of tests that run under MPI: rank 0 reports as GoogleTest does, the others only their failures, and the exit
// status is the same on all ranks. Cases that would prove nothing on this number of ranks are left out by their names.
#include <iostream>
#include <memory>
#include <sstream>
#include <string>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <mpi.h>

#include <mn/comm/mpi/mpi.hpp>
#include <mn/job/job.hpp>

namespace {

/// Prints failures alone, each in one piece and with the rank.
class FailurePrinter final : public testing::EmptyTestEventListener {
 public:
  explicit FailurePrinter(int rank) : rank_(rank) {}

 private:
  void OnTestStart(const testing::TestInfo& test) override {
    name_ = std::string(test.test_suite_name()) + "." + test.name() + ": ";
  }
  void OnTestEnd(const testing::TestInfo& /*test*/) override { name_.clear(); }

  void OnTestPartResult(const testing::TestPartResult& result) override {
    if (!result.failed()) return;
    std::ostringstream text;
    text << "[rank " << rank_ << "] " << name_ << (result.file_name() != nullptr ? result.file_name() : "") << ":"
         << result.line_number() << ": " << result.message() << "\n";
    std::cerr << text.str() << std::flush;
  }

  int rank_;
  std::string name_;  // GoogleTest's own record is locked while it reports a result
};

/// Leaves out cases whose name says that they need other numbers of ranks: NAME_from_2_ranks, NAME_on_1_rank.
void leave_out_cases(int ranks) {
  std::string others;
  for (int needed = 1; needed <= 4; ++needed) {
    const std::string number = std::to_string(needed) + (needed == 1 ? "_rank*" : "_ranks*");
    if (needed != ranks) others += ":*_on_" + number;
    if (needed > ranks) others += ":*_from_" + number;
  }
  const std::string filter = GTEST_FLAG_GET(filter);
  GTEST_FLAG_SET(filter, filter + (filter.find('-') == std::string::npos ? "-" : "") + others);
}

int run_tests(const mn::Job& job) {
  leave_out_cases(job.size());
  auto& listeners = testing::UnitTest::GetInstance()->listeners();
  if (job.rank() != 0) {
    delete listeners.Release(listeners.default_result_printer());
    listeners.Append(new FailurePrinter(job.rank()));  // GoogleTest owns it
  }
  int failed = RUN_ALL_TESTS();
  mn::mpi_check(MPI_Allreduce(MPI_IN_PLACE, &failed, 1, MPI_INT, MPI_MAX, MPI_COMM_WORLD), "combining test results");
  return failed;
}

}  // namespace

int main(int argc, char** argv) {
  testing::InitGoogleMock(&argc, argv);
  // An exception on one rank must end the job: the others may wait for it in a collective.
  GTEST_FLAG_SET(catch_exceptions, false);
  return mn::run_job(argc, argv, run_tests);
}

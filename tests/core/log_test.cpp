#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <string>

#include <boost/core/null_deleter.hpp>
#include <boost/log/core.hpp>
#include <boost/log/sinks/sync_frontend.hpp>
#include <boost/log/sinks/text_ostream_backend.hpp>
#include <boost/log/sources/logger.hpp>
#include <boost/log/sources/record_ostream.hpp>
#include <boost/log/sources/severity_logger.hpp>
#include <boost/make_shared.hpp>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <mn/core/error.hpp>
#include <mn/core/log.hpp>

namespace mn {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;

/// The console's output for one line of each severity.
std::string console(const LogOptions& options) {
  ::testing::internal::CaptureStderr();
  init_log(options);
  log_debug("a debug line");
  log_info("an info line");
  log_warning("a warning line");
  log_error("an error line");
  return ::testing::internal::GetCapturedStderr();
}

LogOptions of_rank(int rank) {
  LogOptions options;
  options.rank = rank;
  options.host = "vn1";
  return options;
}

TEST(Log, RankZeroPrintsFromInfoOn) {
  const std::string text = console(of_rank(0));
  EXPECT_THAT(text,
              AllOf(HasSubstr("info [rank 0 vn1] an info line"), HasSubstr("warning [rank 0 vn1] a warning line")));
  EXPECT_THAT(text, Not(HasSubstr("debug")));
}

TEST(Log, OtherRanksPrintWarningsAndErrorsAlone) {
  const std::string text = console(of_rank(3));
  EXPECT_THAT(text, AllOf(HasSubstr("[rank 3 vn1] a warning line"), HasSubstr("[rank 3 vn1] an error line")));
  EXPECT_THAT(text, Not(HasSubstr("an info line")));
}

TEST(Log, WarningsAndErrorsAreHandedOutOnce) {
  static_cast<void>(take_warnings());
  static_cast<void>(console(of_rank(3)));
  static_cast<void>(console(of_rank(3)));
  EXPECT_THAT(take_warnings(), ElementsAre("a warning line", "an error line"));
  EXPECT_THAT(take_warnings(), IsEmpty());
  ::testing::internal::CaptureStderr();
  for (int i = 0; i < 200; ++i) log_warning(std::to_string(i));
  static_cast<void>(::testing::internal::GetCapturedStderr());
  EXPECT_EQ(take_warnings().size(), 100U);
}

TEST(Log, LevelComesFromTheEnvironment) {
  setenv("MN_LOG_LEVEL", "debug", 1);
  EXPECT_THAT(console(of_rank(0)), HasSubstr("a debug line"));
  setenv("MN_LOG_LEVEL", "loud", 1);
  EXPECT_THROW(init_log({}), UsageError);
  unsetenv("MN_LOG_LEVEL");
}

TEST(Log, EveryRankHasItsFile) {
  LogOptions options = of_rank(3);
  options.file_prefix = (std::filesystem::temp_directory_path() / ("mn_log_test_" + std::to_string(getpid()))).string();
  console(options);
  const std::string path = options.file_prefix + "-0003.log";
  std::stringstream text;
  text << std::ifstream(path).rdbuf();
  EXPECT_THAT(text.str(), AllOf(HasSubstr("a debug line"), HasSubstr("an info line")));
  std::filesystem::remove(path);
}

/// Adds a sink of the program's own, which writes to `stream`.
boost::shared_ptr<boost::log::sinks::sink> add_sink(std::ostream& stream) {
  namespace sinks = boost::log::sinks;
  auto sink = boost::make_shared<sinks::synchronous_sink<sinks::text_ostream_backend>>();
  sink->locked_backend()->add_stream(boost::shared_ptr<std::ostream>(&stream, boost::null_deleter()));
  boost::log::core::get()->add_sink(sink);
  return sink;
}

TEST(Log, SinksOfTheProgramStay) {
  std::ostringstream kept;
  const auto sink = add_sink(kept);
  console(of_rank(0));
  console(of_rank(3));
  boost::log::core::get()->remove_sink(sink);
  EXPECT_THAT(kept.str(), AllOf(HasSubstr("a debug line"), HasSubstr("an error line")));
}

TEST(Log, RecordsOfTheProgramNeedNoSeverity) {
  ::testing::internal::CaptureStderr();
  init_log(of_rank(0));
  boost::log::sources::logger plain;
  BOOST_LOG(plain) << "a record without severity";
  boost::log::sources::severity_logger<int> other;
  BOOST_LOG_SEV(other, 3) << "a record of another severity";
  EXPECT_THAT(::testing::internal::GetCapturedStderr(), AllOf(HasSubstr("info [rank 0 vn1] a record without severity"),
                                                              HasSubstr("a record of another severity")));
}

}  // namespace
}  // namespace mn

#include <mn/core/log.hpp>

#include <algorithm>
#include <atomic>
#include <cstdio>
#include <iostream>
#include <mutex>
#include <utility>

#include <boost/core/null_deleter.hpp>
#include <boost/log/attributes/clock.hpp>
#include <boost/log/core.hpp>
#include <boost/log/expressions.hpp>
#include <boost/log/sinks/sync_frontend.hpp>
#include <boost/log/sinks/text_file_backend.hpp>
#include <boost/log/sinks/text_ostream_backend.hpp>
#include <boost/log/sources/record_ostream.hpp>
#include <boost/log/sources/severity_logger.hpp>
#include <boost/log/support/date_time.hpp>

#include <mn/core/environment.hpp>
#include <mn/core/error.hpp>

namespace mn {
namespace {

namespace logging = boost::log;
namespace expr = boost::log::expressions;

constexpr const char* kNames[] = {"debug", "info", "warning", "error"};

std::atomic<bool> is_set_up{false};
std::vector<boost::shared_ptr<logging::sinks::sink>> own_sinks;  // made by the last init_log()

/// The program's own Boost.Log records have no mn::Severity; they count as information.
Severity severity_of(const logging::attribute_value_set& values) {
  const auto severity = values["Severity"].extract<Severity>();
  return severity ? *severity : Severity::kInfo;
}

Severity severity_named(const std::string& name) {
  for (int i = 0; i < 4; ++i) {
    if (name == kNames[i]) return static_cast<Severity>(i);
  }
  throw UsageError("MN_LOG_LEVEL is \"" + name + "\": use debug, info, warning or error");
}

logging::formatter line_format(const LogOptions& options) {
  const std::string who = "[rank " + std::to_string(options.rank) + " " + options.host + "] ";
  return expr::stream << expr::format_date_time<boost::posix_time::ptime>("TimeStamp", "%H:%M:%S.%f") << " "
                      << expr::wrap_formatter([](const logging::record_view& record, logging::formatting_ostream& out) {
                           out << kNames[static_cast<int>(severity_of(record.attribute_values()))];
                         })
                      << " " << who << expr::smessage;
}

void add_own(const boost::shared_ptr<logging::sinks::sink>& sink) {
  own_sinks.push_back(sink);
  logging::core::get()->add_sink(sink);
}

void add_console(const LogOptions& options, Severity least) {
  using Sink = logging::sinks::synchronous_sink<logging::sinks::text_ostream_backend>;
  auto sink = boost::make_shared<Sink>();
  sink->locked_backend()->add_stream(boost::shared_ptr<std::ostream>(&std::clog, boost::null_deleter()));
  sink->locked_backend()->auto_flush(true);
  sink->set_formatter(line_format(options));
  const Severity shown = options.rank == 0 ? least : Severity::kWarning;
  sink->set_filter([shown](const logging::attribute_value_set& values) { return severity_of(values) >= shown; });
  add_own(sink);
}

void add_file(const LogOptions& options, const std::string& prefix) {
  char name[32];
  std::snprintf(name, sizeof name, "-%04d.log", options.rank);
  using Sink = logging::sinks::synchronous_sink<logging::sinks::text_file_backend>;
  auto sink = boost::make_shared<Sink>(logging::keywords::file_name = prefix + name);
  sink->locked_backend()->auto_flush(true);
  sink->set_formatter(line_format(options));
  add_own(sink);
}

class Warnings {
 public:
  void add(std::string_view text) {
    const std::lock_guard lock(mutex_);
    if (texts_.size() < kMaxTexts && std::ranges::find(texts_, text) == texts_.end()) texts_.emplace_back(text);
  }
  std::vector<std::string> take() {
    const std::lock_guard lock(mutex_);
    return std::exchange(texts_, {});
  }

 private:
  static constexpr std::size_t kMaxTexts = 100;
  std::mutex mutex_;
  std::vector<std::string> texts_;
};

Warnings& warnings() {
  static Warnings kept;
  return kept;
}

}  // namespace

void init_log(const LogOptions& given) {
  LogOptions options = given;
  if (options.host.empty()) options.host = host_name();
  Severity least = options.console;
  if (const auto level = environment("MN_LOG_LEVEL")) least = severity_named(*level);

  auto core = logging::core::get();
  for (const auto& sink : own_sinks) core->remove_sink(sink);  // keeps the program's own sinks
  own_sinks.clear();
  core->add_global_attribute("TimeStamp", logging::attributes::local_clock());
  add_console(options, least);
  const std::string prefix = environment("MN_LOG_FILE").value_or(options.file_prefix);
  if (!prefix.empty()) add_file(options, prefix);
  is_set_up = true;
}

void log(Severity severity, std::string_view message) {
  static std::once_flag once;
  std::call_once(once, [] {
    if (!is_set_up) init_log({});
  });
  logging::sources::severity_logger_mt<Severity> logger(logging::keywords::severity = severity);
  BOOST_LOG_SEV(logger, severity) << message;
  if (severity >= Severity::kWarning) warnings().add(message);
}

std::vector<std::string> take_warnings() { return warnings().take(); }

}  // namespace mn

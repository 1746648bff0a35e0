// mnreport: a page that shows or compares runs.
#include <filesystem>
#include <iostream>
#include <vector>

#include <mn/core/error.hpp>
#include <mn/core/file.hpp>
#include <mn/core/tool.hpp>
#include <mn/report/calls.hpp>
#include <mn/report/report.hpp>

#include "arguments.hpp"

namespace {

int run(int argc, char** argv) {
  mn::report::Settings settings;
  mn::Options options = mn::report::make_options(settings);
  const auto [words, given] = mn::split_command_line(argc, argv, {"--calls"});
  const auto action = options.parse(static_cast<int>(given.size()), given.data());
  if (action == mn::Options::Action::kVersion) return std::cout << "mnreport " MN_VERSION "\n", 0;
  if (action == mn::Options::Action::kHelp) return std::cout << options.help(), 0;
  const std::vector<std::filesystem::path> outs(words.begin(), words.end());
  if (outs.empty()) throw mn::UsageError("give the folder that a job wrote with --out; see mnreport --help");
  if (settings.calls) {
    for (const auto& out : outs) std::cout << mn::describe_calls(out);
    return 0;
  }
  const std::filesystem::path beside = outs.size() == 1 ? outs.front() / "report.html" : "report.html";
  const std::filesystem::path path = settings.output.empty() ? beside : std::filesystem::path(settings.output);
  mn::write_file(path, mn::make_report(outs));
  std::cout << path.string() << std::endl;
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  return mn::run_tool("mnreport", [&] { return run(argc, argv); });
}

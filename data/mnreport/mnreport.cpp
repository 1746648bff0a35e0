// mnreport: a page that shows or compares runs.
#include <cstring>
#include <filesystem>
#include <iostream>
#include <string>
#include <vector>

#include <mn/core/error.hpp>
#include <mn/core/file.hpp>
#include <mn/report/calls.hpp>
#include <mn/report/report.hpp>

#include "arguments.hpp"

namespace {

int run(int argc, char** argv) {
  mn::report::Settings settings;
  mn::Options options = mn::report::make_options(settings);
  std::vector<const char*> given = {argv[0]};
  std::vector<std::filesystem::path> outs;
  for (int i = 1; i < argc; ++i) {
    if (std::strncmp(argv[i], "--", 2) != 0) {
      outs.emplace_back(argv[i]);
      continue;
    }
    given.push_back(argv[i]);
    const bool takes_next = std::strcmp(argv[i], "--output") == 0 || std::strcmp(argv[i], "--config") == 0;
    if (takes_next && i + 1 < argc) given.push_back(argv[++i]);
  }
  const auto action = options.parse(static_cast<int>(given.size()), given.data());
  if (action == mn::Options::Action::kVersion) return std::cout << "mnreport " MN_VERSION "\n", 0;
  if (action == mn::Options::Action::kHelp) return std::cout << options.help(), 0;
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
  try {
    return run(argc, argv);
  } catch (const mn::Error& error) {
    std::cerr << "mnreport: " << error.what() << "\n";
    return error.exit_code();
  } catch (const std::exception& error) {
    std::cerr << "mnreport: " << error.what() << "\n";
    return 1;
  }
}

// mnreport makes a page that shows or compares runs.
#include <filesystem>
#include <fstream>
#include <iostream>
#include <string>
#include <vector>

#include <mn/core/error.hpp>
#include <mn/core/file.hpp>
#include <mn/core/tool.hpp>
#include <mn/report/calls.hpp>
#include <mn/report/html_page.hpp>
#include <mn/report/make_report.hpp>

#include "arguments.hpp"

namespace {

void print_note(const std::string& text) { std::cerr << "mnreport: note: " << text << "\n"; }

/// The folders in `outs` that have a run. Of several (`runs/*`), skips those without a run, with a message.
std::vector<std::filesystem::path> folders_of_runs(const std::vector<std::filesystem::path>& outs) {
  std::vector<std::filesystem::path> runs;
  for (const auto& out : outs) {
    const bool is_run = mn::has_run(out);
    if (is_run || !std::filesystem::exists(out)) runs.push_back(out);  // make_report() names an absent folder
    if (is_run && !std::filesystem::exists(out / "run.jsonl")) {
      print_note(out.string() +
                 " has no run.jsonl, so its state, hosts and times are not known; a program of your own "
                 "writes it after mn::app::record_run(trainer), or with the extension mn::extensions::RunRecord");
    }
    if (!is_run && outs.size() > 1 && std::filesystem::is_directory(out)) {
      print_note(out.string() +
                 " is left out: it has neither a log, which a Trainer writes with the extension "
                 "mn::extensions::LogReport at its first report, nor run.jsonl");
    }
  }
  return runs.empty() ? outs : runs;  // make_report() throws an error that says what is missing
}

/// A wrong --output must not replace a log: throws DataError if the file is neither empty nor a page.
void check_replaceable(const std::filesystem::path& path) {
  std::error_code error;
  if (!std::filesystem::is_regular_file(path, error)) return;  // write_file() names what is wrong
  std::string head(512, '\0');
  std::ifstream file(path);
  file.read(head.data(), static_cast<std::streamsize>(head.size()));
  if ((file.eof() && file.gcount() == 0) || mn::report::is_page(head)) return;
  throw mn::DataError(path.string() + " is not a page that mnreport wrote: remove it, or choose another --output");
}

int run(int argc, char** argv) {
  mn::report::Settings settings;
  mn::Options options = mn::report::make_options(settings);
  std::vector<std::string> words;
  const auto action = options.parse(argc, argv, &words);
  if (action == mn::Options::Action::kVersion) return std::cout << "mnreport " MN_VERSION "\n", 0;
  if (action == mn::Options::Action::kHelp) return std::cout << options.help(), 0;
  const std::vector<std::filesystem::path> outs(words.begin(), words.end());
  if (outs.empty()) throw mn::UsageError("give the folder that a job wrote with --out; see mnreport --help");
  if (settings.calls) {
    for (const auto& out : outs) std::cout << mn::describe_calls(out);
    return 0;
  }
  const std::vector<std::filesystem::path> runs = folders_of_runs(outs);
  const std::filesystem::path beside = runs.size() == 1 ? runs.front() / "report.html" : "report.html";
  const std::filesystem::path path = settings.output.empty() ? beside : std::filesystem::path(settings.output);
  check_replaceable(path);
  mn::write_file(path, mn::make_report(runs, print_note));
  std::cout << path.string() << std::endl;
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  return mn::run_tool("mnreport", [&] { return run(argc, argv); });
}

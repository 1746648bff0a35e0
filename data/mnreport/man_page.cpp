// Prints the manual page mnreport(1), which the build installs.
#include <iostream>

#include <mn/core/manual.hpp>

#include "arguments.hpp"

int main() {
  mn::report::Settings settings;
  std::cout << ".TH MNREPORT 1\n.SH NAME\nmnreport \\- show and compare runs of training jobs\n.SH SYNOPSIS\n"
               "mnreport OUT ... [options]\n.SH DESCRIPTION\nMakes a page of HTML, without outside assets, of the "
               "folders that jobs wrote with \\-\\-out. One folder: state, results, what to look at, curves, times and "
               "options. Several: a table, the best run first, and curves on top of each other; folders without a log "
               "are left out. With \\-\\-calls it says instead which ranks of a job that hung or died wait for which.\n"
               ".SH OPTIONS\n"
            << mn::report::make_options(settings).manual() << ".SH EXIT STATUS\n"
            << mn::manual_item("0", "the page is written, or the calls are described")
            << mn::manual_item("1", "a log is absent or damaged, or the page cannot be written")
            << mn::manual_item("2", "usage")
            << ".SH EXAMPLES\n.nf\nmnreport result\nmnreport runs/* \\-\\-output comparison.html\nmnreport \\-\\-calls "
               "result\n.fi\n";
}

// Prints the manual page mncheck(1), which the build installs.
#include <iostream>

#include <mn/core/manual.hpp>

#include "data/mncheck/checkpoint_options.hpp"

int main() {
  mn::check::Settings settings;
  std::cout << ".TH MNCHECK 1\n.SH NAME\nmncheck \\- list, verify, compare, prune and merge checkpoints\n.SH SYNOPSIS\n"
               "mncheck list|verify|prune|merge DIR [options]\n.br\nmncheck diff A B\n.SH DESCRIPTION\n"
               "Looks at the checkpoints of training jobs. DIR is a job's output folder, or one checkpoint.\n"
               ".SH OPTIONS\n"
            << mn::check::make_options(settings).manual() << ".SH EXIT STATUS\n"
            << mn::manual_item("0", "all is well")
            << mn::manual_item("1", "a checkpoint is absent or damaged, or two differ") << mn::manual_item("2", "usage")
            << ".SH EXAMPLES\n.nf\nmncheck list result\nmncheck verify result/ckpt/step-00001200\n"
               "mncheck merge result --output model.safetensors\n.fi\n";
}

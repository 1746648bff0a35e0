/// mnlaunch's options: the one source of the parser, --help and the manual page.
#pragma once

namespace mn::launcher {

struct OptionText {
  const char* name;
  const char* value;    ///< empty: a flag; else its placeholder or choices
  const char* summary;  ///< for --help: one line
  const char* details;  ///< for the manual page
};

inline constexpr OptionText kOptions[] = {
    {"check", "off|warn|strict", "compare the nodes before the start (default: warn)",
     "Compare the nodes before PROGRAM starts. With warn, errors stop the job and warnings are printed; with strict, "
     "warnings stop it too; off compares nothing."},
    {"check-file", "PATH", "this file must be the same on all nodes (repeatable)",
     "This file must exist and be the same on all nodes: size, a hash of its two ends, and, where that leaves out its "
     "middle, the time of change. May be "
     "given more than once."},
    {"doctor", "", "run all checks and a live self test, and report",
     "Run all checks and a live self test: a ring of messages, reductions with known sums, latency and bandwidth "
     "between nodes, and probes of the GPUs. Prints a report; the exit status is 0 if all is well and 1 if not."},
    {"bind", "auto|none", "cores, GPU and NIC for each rank (default: auto)",
     "With auto, each rank gets cores of its own near its GPU, within what the scheduler left it. With none, masks "
     "stay as they are."},
    {"gpu-visibility", "all|one", "GPUs that a rank can see (default: all)",
     "With all, a rank sees every GPU of its job on the node, as NCCL needs for direct transfers, and MN_DEVICE says "
     "which one is its own. With one, CUDA_VISIBLE_DEVICES names that one alone and MN_DEVICE is cuda:0."},
    {"oversubscribe-gpu", "", "allow ranks to share a GPU",
     "Allow more ranks than GPUs on a node; they share the GPUs in turn. Without it, that is an error, or a warning "
     "where mpiexec starts all ranks on one node."},
    {"output", "DIR", "write each rank's output to DIR/rank-0000.out, .err",
     "Write the standard output and error of rank N to DIR/rank-N.out and DIR/rank-N.err, N with four digits or more. "
     "DIR is made where it does not exist."},
    {"show", "", "print who runs where",
     "Print a table on rank 0: rank, host, rank in the node, number of the node, GPU, cores, NIC and where this "
     "comes from."},
    {"dry-run", "", "do all but start the program; implies --show",
     "Do all of it, print the table of --show, and exit with 0 without starting PROGRAM."},
    {"json", "", "reports as one JSON document",
     "Print reports (--show, --doctor, findings) as one JSON document on rank 0."},
    {"help", "", "print this help", "Print a summary of the options."},
    {"version", "", "print the version", "Print the version of mnlaunch."},
};

}  // namespace mn::launcher

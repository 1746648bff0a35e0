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
    {"skip", "NAME", "leave out the check of that name (repeatable)",
     "Leave out the check whose findings have NAME in brackets. May be given more than once, or with a list of names "
     "with commas between them."},
    {"warn", "NAME", "errors of that check are warnings (repeatable)",
     "Errors of the check of that name do not stop the job. May be given more than once, or with a list of names with "
     "commas between them."},
    {"check-file", "PATH", "this file must be the same on all nodes (repeatable)",
     "This file must exist and be the same on all nodes: size, a hash of its two ends, and, where that leaves out its "
     "middle, the time of change. May be "
     "given more than once."},
    {"doctor", "", "run all checks and a live self test, and report",
     "Run all checks and a live self test: a ring of messages, reductions with known sums, latency and bandwidth "
     "between nodes, and probes of the GPUs. Prints a report; the exit status is 0 if all is well and 1 if not."},
    {"save", "FILE", "with --doctor: write the report to FILE too",
     "With --doctor: rank 0 writes the report to FILE too, as JSON, for a later --against."},
    {"against", "FILE", "with --doctor: compare with the report in FILE",
     "With --doctor: compare with the report that an earlier --save wrote to FILE. What has become more than a fifth "
     "slower is a failure."},
    {"history", "FILE", "with --doctor: add a line for each host to FILE",
     "With --doctor: rank 0 appends a line for each host to FILE, as JSON: time, findings, verdict and figures. The "
     "report says which hosts failed in several of their last ten runs."},
    {"timeout", "SECONDS", "wait that long for the other ranks (default: 60)",
     "Wait SECONDS for ranks that have not come or do not answer; then the job ends with a line that names them."},
    {"ports", "FIRST-LAST", "listen on these TCP ports (default: 20000-31999)",
     "The launchers of the nodes, and rank 0 on MASTER_PORT, listen on TCP ports of this range, for clusters whose "
     "firewall opens no other. By default 20000-31999, or 8000-19999 where other processes have the ports of the "
     "first range."},
    {"bind", "auto|none", "cores, GPU and NIC for each rank (default: auto)",
     "With auto, each rank gets cores of its own near its GPU, within what the scheduler left it. With none, masks "
     "stay as they are."},
    {"cpu-map", "LIST:LIST:...", "CPUs of each node's first rank, second, ...",
     "The CPUs of each node's first rank, of its second, and so on: 0-7,64-71:8-15,72-79. Overrides --bind."},
    {"mem-bind", "none|local", "memory near the rank's cores alone (default: none)",
     "With local, all memory of a rank comes from the NUMA nodes of its cores, and the kernel ends a rank that needs "
     "more. With none, the kernel prefers near memory, and takes other memory where that is full."},
    {"bind-threads", "", "pin OpenMP threads: OMP_PLACES, OMP_PROC_BIND",
     "Export OMP_PLACES=cores and OMP_PROC_BIND=close, unless they are set: each OpenMP thread stays on one core. "
     "Threads that a program starts by itself after its first parallel region then share the core of the thread that "
     "started them."},
    {"bind-nic", "", "export the nearest card: UCX_NET_DEVICES, NCCL_IB_HCA",
     "Export UCX_NET_DEVICES and NCCL_IB_HCA, unless they are set, so that UCX and NCCL use the InfiniBand or RoCE "
     "card "
     "nearest to the rank's GPU and no other."},
    {"gpu-visibility", "all|one", "GPUs that a rank can see (default: all)",
     "With all, a rank sees every GPU of its job on the node, as NCCL needs for direct transfers, and MN_DEVICE says "
     "which one is its own. With one, CUDA_VISIBLE_DEVICES names that one alone, MN_DEVICE is cuda:0, and LOCAL_RANK "
     "is 0."},
    {"oversubscribe-gpu", "", "allow ranks to share a GPU",
     "Allow more ranks than GPUs on a node; they share the GPUs in turn. Without it, that is an error, or a warning "
     "where mpiexec starts all ranks on one node."},
    {"output", "DIR|PATTERN", "write each rank's output to DIR/rank-0000.out, .err",
     "Write the standard output and error of rank N to DIR/rank-N.out and DIR/rank-N.err, N with four digits or more. "
     "With a % in it the text is a pattern of file names: %r is the rank, %4r the rank with four digits, %j the number "
     "of the job, %s that of its step, %h the host, %t out or err (without it both go to one file), and %% a percent "
     "sign. Folders are made where they do not exist. Later steps of a Slurm job and jobs that Slurm starts again "
     "append; so does a start that finds another process writing, and so do patterns that give several ranks one "
     "file."},
    {"append", "", "with --output: append to files that are there",
     "With --output: append to files that are there. Without it, a first start empties them."},
    {"label", "", "begin each line of output with the rank",
     "Begin each line of output with the number of the rank: \"3: epoch 1\". mnlaunch then stays as the parent of "
     "PROGRAM, passes signals on to it, and ends as it does."},
    {"show", "", "print who runs where",
     "Print a table on rank 0: rank, host, rank in the node, number of the node, device, address of the GPU, cores, "
     "NIC and where this comes from."},
    {"dry-run", "", "do all but start the program; implies --show",
     "Do all of it, print the table of --show, and exit with 0 without starting PROGRAM."},
    {"json", "", "reports as one JSON document",
     "Print reports (--show, --doctor, findings) as one JSON document on rank 0."},
    {"help", "", "print this help", "Print a summary of the options."},
    {"version", "", "print the versions of mnlaunch and of its MPI",
     "Print the version of mnlaunch, and that of the MPI with which it was built."},
};

}  // namespace mn::launcher

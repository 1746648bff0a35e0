/// The facts that nodes and ranks report to the root before the start. A fact without a value could not be read. An
/// empty text or list is a known fact, for example that the node has no mpiexec.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include <mn/core/fields.hpp>

#include "bind/affinity.hpp"
#include "bind/machine.hpp"
#include "facts/elf.hpp"
#include "facts/gpu/nvidia_gpu.hpp"
#include "facts/ports.hpp"

namespace mn::launcher {

struct LimitFacts {
  static constexpr std::int64_t kUnlimited = -1;
  std::optional<std::int64_t> memlock;
  std::optional<std::int64_t> nofile;
  std::optional<std::int64_t> stack;
  std::optional<std::int64_t> nproc;
  std::optional<std::int64_t> core;
  MN_FIELDS(memlock, nofile, stack, nproc, core);
};

struct CpuFacts {
  std::optional<std::string> model;
  std::optional<std::int64_t> count;
  std::optional<std::string> governor;    ///< CPU frequency governor
  std::optional<std::string> huge_pages;  ///< setting of transparent huge pages
  std::optional<std::string> kernel;
  std::optional<std::string> libc;
  std::optional<double> quota;  ///< CPU time that a control group allows, in CPUs; no value: unlimited
  MN_FIELDS(model, count, governor, huge_pages, kernel, libc, quota);
};

struct UserFacts {
  std::optional<std::int64_t> uid;
  std::optional<std::int64_t> gid;
  std::optional<std::int64_t> umask;
  MN_FIELDS(uid, gid, umask);
};

/// A folder that does not exist has no free space and is not writable.
struct FolderFacts {
  std::optional<std::string> path;
  std::optional<std::uint64_t> free_mib;
  std::optional<bool> writable;
  std::optional<bool> shared;  ///< rank 0 sees the same output folder
  MN_FIELDS(path, free_mib, writable, shared);
};

struct SystemFacts {
  LimitFacts limits;
  std::vector<PortFacts> ports;
  std::optional<double> uptime_s;
  FolderFacts shm;
  std::optional<std::string> ptrace_scope;
  std::optional<std::string> driver_module;  ///< version of NVIDIA's kernel module
  std::vector<std::string> xids;             ///< recent hardware errors of GPUs, for people
  std::optional<bool> kernel_log;            ///< the kernel log can be read; no value without NVIDIA's driver
  std::optional<std::string> boot_id;
  CpuFacts cpu;
  UserFacts user;
  FolderFacts folder;  ///< current folder
  FolderFacts output;
  FolderFacts tmp;
  MN_FIELDS(limits, ports, uptime_s, shm, ptrace_scope, driver_module, xids, kernel_log, boot_id, cpu, user, folder,
            output, tmp);
};

/// Identifies the build of a program or library: two files with equal id and size count as one build.
struct BuildFacts {
  std::optional<std::string> path;
  std::optional<std::string> id;  ///< the linker's build id, or a hash
  std::optional<std::uint64_t> size;
  MN_FIELDS(path, id, size);
};

/// The program that mnlaunch starts, and mnlaunch itself.
struct ProgramFacts {
  std::string error;  ///< why the program cannot be run; empty if it can
  BuildFacts program;
  BuildFacts mnlaunch;
  std::optional<std::string> script;    ///< name and hash of the script; empty: no script among the arguments
  std::optional<std::string> mpiexec;   ///< path of the mpiexec in PATH; empty: none
  std::optional<std::string> settings;  ///< hash of the site's mnlaunch.conf; empty: none
  /// The libraries whose builds can break a job, by name. No value if the loader gave no list.
  std::optional<std::map<std::string, BuildFacts>> libraries;
  std::vector<std::string> missing;  ///< libraries that the loader does not find
  std::string mpi;                   ///< "MPICH", "Open MPI"; empty: neither, or unknown
  std::string script_mpi;            ///< MPI of a program that the script starts, or "mpi4py"; empty: none
  /// Versions of "python" and of the packages that decide how ranks work together; empty: not a program of Python.
  std::map<std::string, std::string> python;
  MN_FIELDS(error, program, mnlaunch, script, script_mpi, mpiexec, settings, libraries, missing, mpi, python);
};

/// A file that --check-file names.
struct FileFacts {
  std::string path;
  bool exists = false;  ///< the file exists and can be read
  std::optional<std::uint64_t> size;
  std::optional<std::int64_t> changed;  ///< time of change; 0 if the hash covers the whole file
  std::optional<std::string> hash;      ///< hash of the file's two ends
  MN_FIELDS(path, exists, size, changed, hash);
};

/// Hashes of NCCL's two configuration files, and its network plugin. An empty text: the file is missing.
struct NcclFacts {
  std::optional<std::string> system_file;
  std::optional<std::string> user_file;
  std::optional<std::string> net_plugin;  ///< name and build
  MN_FIELDS(system_file, user_file, net_plugin);
};

/// Names and addresses of a host, by the host's own account.
struct NetworkFacts {
  std::optional<std::string> address;  ///< the host's address for other nodes
  std::optional<std::string> subnet;   ///< subnet of `address`
  std::vector<std::string> resolved;   ///< addresses of the host's own name
  std::vector<std::string> addresses;  ///< addresses of all network cards
  std::vector<std::string> subnets;    ///< subnets of all network cards
  std::vector<std::string> failures;   ///< failed connections to other nodes, for people
  MN_FIELDS(address, subnet, resolved, addresses, subnets, failures);
};

struct NodeFacts {
  std::optional<std::string> host;  ///< the host's own name; the launcher may use another name
  Machine machine;
  std::optional<double> time;  ///< the node's clock when the root answered round 1, in seconds since the epoch
  bool slurm_pmix = false;     ///< started by srun --mpi=pmix
  bool has_pmi = false;        ///< variables of a PMI-1 or PMI-2 server are set
  bool has_pmix = false;       ///< variables of a PMIx server, or Open MPI's, are set
  std::optional<NetworkFacts> network;
  SystemFacts system;
  ProgramFacts program;
  std::optional<std::map<std::string, std::string>> environment;  ///< variables that change how a job runs
  std::vector<FileFacts> files;
  std::optional<GpuDriver> driver;          ///< no value without a driver
  std::optional<NcclFacts> nccl;            ///< on nodes with a driver
  std::map<std::string, GpuCode> gpu_code;  ///< by file: the GPUs that CUDA code was compiled for
  // `machine` is needed: bindings are computed from `machine`, so a message without `machine` is an error.
  MN_FIELDS(host, machine, time, slurm_pmix, has_pmi, has_pmix, network, system, program, environment, files, driver,
            nccl, gpu_code);
  MN_NEEDED_FIELDS(machine);
};

struct RankFacts {
  std::optional<int> size;               ///< size of the job, by this rank's count
  std::vector<std::string> conflicts;    ///< Placement::conflicts
  std::optional<std::string> arguments;  ///< hash of the command line
  std::optional<int> threads;            ///< threads that the rank will run, by its variables
  std::optional<std::string> openable;   ///< hash of the GPUs that the driver opens to the rank
  RankResources resources;
  MN_FIELDS(size, conflicts, arguments, threads, openable, resources);
  MN_NEEDED_FIELDS(resources);
};

}  // namespace mn::launcher

/// What each node, and each rank, reports to the others before the start.
///
/// A fact that could not be read has no value, and no value never equals another. An empty text or list is a fact:
/// there is no mpiexec, no InfiniBand device.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "bind/binding.hpp"
#include "bind/machine.hpp"
#include "facts/fatbin.hpp"
#include "facts/gpu/nvidia_gpu.hpp"
#include "facts/ports.hpp"

namespace mn::launcher {

/// Soft limits of the process (getrlimit).
struct LimitFacts {
  static constexpr std::int64_t kUnlimited = -1;
  std::optional<std::int64_t> memlock;
  std::optional<std::int64_t> nofile;
  std::optional<std::int64_t> stack;
  std::optional<std::int64_t> nproc;
  std::optional<std::int64_t> core;
  friend bool operator==(const LimitFacts&, const LimitFacts&) = default;
};

struct CpuFacts {
  std::optional<std::string> model;
  std::optional<std::int64_t> count;
  std::optional<std::string> governor;    ///< the frequency's governor
  std::optional<std::string> huge_pages;  ///< transparent ones
  std::optional<std::string> kernel;
  std::optional<std::string> libc;
  std::optional<double> quota;  ///< CPUs' worth of time that a control group allows; no value: unlimited
  friend bool operator==(const CpuFacts&, const CpuFacts&) = default;
};

struct UserFacts {
  std::optional<std::int64_t> uid;
  std::optional<std::int64_t> gid;
  std::optional<std::int64_t> umask;
  friend bool operator==(const UserFacts&, const UserFacts&) = default;
};

/// A folder that is absent has no space and cannot be written.
struct FolderFacts {
  std::optional<std::string> path;
  std::optional<std::uint64_t> free_mib;
  std::optional<bool> writable;
  std::optional<bool> shared;  ///< whether the output folder is the one that rank 0 sees
  friend bool operator==(const FolderFacts&, const FolderFacts&) = default;
};

/// Kernel, memory, processors, users, folders.
struct SystemFacts {
  LimitFacts limits;
  std::vector<PortFacts> ports;
  std::optional<double> uptime_s;
  FolderFacts shm;
  std::optional<std::string> ptrace_scope;
  std::optional<std::string> driver_module;  ///< version of NVIDIA's kernel module
  std::vector<std::string> xids;             ///< recent hardware errors of GPUs, for people
  std::optional<bool> kernel_log;            ///< it can be read; no value without NVIDIA's driver
  std::optional<std::string> boot_id;
  CpuFacts cpu;
  UserFacts user;
  FolderFacts folder;  ///< the current one
  FolderFacts output;
  FolderFacts tmp;
  friend bool operator==(const SystemFacts&, const SystemFacts&) = default;
};

/// A program or library. Two files of one id and size hold the same bytes.
struct BuildFacts {
  std::optional<std::string> path;
  std::optional<std::string> id;  ///< the linker's build id, or a hash
  std::optional<std::uint64_t> size;
  friend bool operator==(const BuildFacts&, const BuildFacts&) = default;
};

/// What runs.
struct ProgramFacts {
  std::string error;  ///< why there is no program to run; else empty
  BuildFacts program;
  BuildFacts mnlaunch;
  std::optional<std::string> script;    ///< its name and hash; empty: none among the arguments
  std::optional<std::string> mpiexec;   ///< the one in PATH; empty: none
  std::optional<std::string> settings;  ///< hash of the site's mnlaunch.conf; empty: none
  /// By name, those that can break a job; no value: the dynamic loader did not answer.
  std::optional<std::map<std::string, BuildFacts>> libraries;
  std::vector<std::string> missing;  ///< libraries that the loader does not find
  std::string mpi;                   ///< "MPICH", "Open MPI"; empty: neither, or not known
  std::string script_mpi;            ///< the same of what a script starts, or "mpi4py"
  friend bool operator==(const ProgramFacts&, const ProgramFacts&) = default;
};

/// A file of --check-file.
struct FileFacts {
  std::string path;
  bool exists = false;  ///< and can be read
  std::optional<std::uint64_t> size;
  std::optional<std::int64_t> changed;  ///< time of change; 0 where the hash covers the whole file
  std::optional<std::string> hash;      ///< hash of its two ends
  friend bool operator==(const FileFacts&, const FileFacts&) = default;
};

/// Hashes of NCCL's configuration files, and its network plugin; empty: there is none.
struct NcclFacts {
  std::optional<std::string> system_file;
  std::optional<std::string> user_file;
  std::optional<std::string> net_plugin;  ///< its name and build
  friend bool operator==(const NcclFacts&, const NcclFacts&) = default;
};

/// Names and addresses of a host.
struct NetworkFacts {
  std::optional<std::string> address;  ///< by which other nodes reach it
  std::optional<std::string> subnet;   ///< subnet of `address`
  std::vector<std::string> resolved;   ///< addresses that its own name leads to
  std::vector<std::string> addresses;  ///< addresses of all its cards
  std::vector<std::string> subnets;    ///< the same
  std::vector<std::string> failures;   ///< connections to other nodes that failed, for people
  friend bool operator==(const NetworkFacts&, const NetworkFacts&) = default;
};

struct NodeFacts {
  std::optional<std::string> host;  ///< its own name; launchers may know it by another
  Machine machine;
  std::optional<double> time;  ///< seconds since the epoch, of all nodes at one moment
  bool slurm_pmix = false;     ///< started by srun --mpi=pmix
  bool has_pmi = false;        ///< there are variables of a PMI-1 or PMI-2 server
  bool has_pmix = false;       ///< there are variables of a PMIx server, be it Open MPI's
  std::optional<NetworkFacts> network;
  SystemFacts system;
  ProgramFacts program;
  std::optional<std::map<std::string, std::string>> environment;  ///< variables that change how a job runs
  std::vector<FileFacts> files;
  std::optional<GpuDriver> driver;          ///< no value: there is none
  std::optional<NcclFacts> nccl;            ///< where there is a driver
  std::map<std::string, GpuCode> gpu_code;  ///< by file: GPUs that the program was compiled for
  friend bool operator==(const NodeFacts&, const NodeFacts&) = default;
};

struct RankFacts {
  std::optional<int> size;               ///< size of the job, as this rank counts
  std::vector<std::string> conflicts;    ///< as Placement::conflicts
  std::optional<std::string> arguments;  ///< hash of the command line
  std::optional<int> threads;            ///< that the rank will run, if its variables say
  std::optional<std::string> openable;   ///< hash of the GPUs that the driver opens to it
  RankResources resources;
  friend bool operator==(const RankFacts&, const RankFacts&) = default;
};

}  // namespace mn::launcher

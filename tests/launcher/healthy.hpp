/// A job of three nodes with two ranks each; every check is content; each test spoils a single fact.
#pragma once

#include "launcher/checks/checks.hpp"

namespace mn::launcher {

inline Gpu healthy_gpu(int index) {
  return {.uuid = "GPU-" + std::to_string(index),
          .bus_id = "0000:0" + std::to_string(index) + ":00.0",
          .name = "H100",
          .memory_mib = 81559,
          .capability = 90,
          .ecc = true,
          .power_limit_w = 700,
          .compute_mode = 0,
          .mig = false,
          .slices = {},
          .remap_pending = false,
          .throttled = false,
          .processes = 0,
          .health = {.links = 18,
                     .link_recoveries = 0,
                     .in_fabric = true,
                     .uncorrected = 0,
                     .retirement_pending = false,
                     .remap_failed = false,
                     .persistent = true,
                     .application_clock_mhz = 1980}};
}

/// Two NUMA nodes of four cores, with a GPU each.
inline Machine healthy_machine() {
  Machine machine;
  for (int core = 0; core < 8; ++core) machine.cores.push_back({{core}, core / 4});
  machine.gpus = {{"0000:00:00.0", {0, 1, 2, 3}, ""}, {"0000:01:00.0", {4, 5, 6, 7}, ""}};
  machine.numa_nodes = 2;
  return machine;
}

inline SystemFacts healthy_system(const std::string& host) {
  return {.limits = {.memlock = LimitFacts::kUnlimited, .nofile = 65536, .stack = -1, .nproc = 4096, .core = 0},
          .ports = {{"mlx5_0/1", "ACTIVE", "400 Gb/sec (4X NDR)", 0, 0}, {"eth0", "ACTIVE", "25000 Mb/s", 1, 0}},
          .uptime_s = 10 * 86400.0,
          .shm = {.path = "/dev/shm", .free_mib = 4096, .writable = true, .shared = {}},
          .ptrace_scope = "1",
          .driver_module = "580.95.05",
          .xids = {},
          .kernel_log = true,
          .boot_id = "boot-" + host,
          .cpu = {.model = "EPYC",
                  .count = 64,
                  .governor = "performance",
                  .huge_pages = "[madvise]",
                  .kernel = "6.1.0",
                  .libc = "2.36",
                  .quota = {}},
          .user = {.uid = 1000, .gid = 100, .umask = 18},
          .folder = {.path = "/home/u", .free_mib = 900, .writable = true, .shared = {}},
          .output = {.path = "/home/u/result", .free_mib = 900, .writable = true, .shared = true},
          .tmp = {.path = "/tmp", .free_mib = 900, .writable = true, .shared = {}}};
}

inline ProgramFacts healthy_program() {
  return {.error = "",
          .program = {"/home/u/job", "1111", 5000},
          .mnlaunch = {"/home/u/mnlaunch", "2222", 6000},
          .script = "",
          .mpiexec = "/opt/mpi/bin/orterun",
          .settings = "",
          .libraries = {{{"libmpi.so.40", {"/opt/mpi/lib/libmpi.so.40", "3333", 7000}},
                         {"libc.so.6", {"/lib/libc.so.6", "4444", 8000}},
                         {"libcudart.so.13", {"/opt/cuda/libcudart.so.13", "5555", 9000}}}},
          .missing = {},
          .mpi = "Open MPI",
          .script_mpi = "",
          .python = {{"python", "3.11"}, {"torch", "2.11.0"}, {"nvidia_nccl_cu13", "2.28.9"}, {"numpy", "2.4.6"}}};
}

inline NodeFacts healthy_node(int node) {
  const std::string host = "vn" + std::to_string(node + 1);
  const std::string address = "10.0.0." + std::to_string(node + 1);
  NodeFacts facts;
  facts.host = host;
  facts.machine = healthy_machine();
  facts.time = 1000.0 + 0.01 * node;
  facts.slurm_pmix = true;
  facts.network = NetworkFacts{.address = address,
                               .subnet = "10.0.0.0/24",
                               .resolved = {address},
                               .addresses = {address},
                               .subnets = {"10.0.0.0/24"},
                               .failures = {}};
  facts.system = healthy_system(host);
  facts.program = healthy_program();
  facts.environment = std::map<std::string, std::string>{{"PATH", "/opt/mpi/bin"}, {"OMP_NUM_THREADS", "4"}};
  facts.files = {{.path = "data.h5", .exists = true, .size = 10, .changed = 5, .hash = "aa"}};
  facts.driver = GpuDriver{.version = "580.95.05", .cuda_version = 13000, .gpus = {healthy_gpu(0), healthy_gpu(1)}};
  facts.nccl = NcclFacts{.system_file = "", .user_file = "", .net_plugin = ""};
  facts.gpu_code = {{"the program", {{80, 90}, {90}}}};
  return facts;
}

inline JobFacts healthy_job() {
  JobFacts job;
  job.launcher = Launcher::kPmix;
  job.layout = {{0, 0, 1, 1, 2, 2}, {"vn1", "vn2", "vn3"}};
  for (int node = 0; node < 3; ++node) {
    job.nodes.push_back(healthy_node(node));
    job.bindings.push_back({{.gpu = 0, .cpus = {0, 1}, .cores = 2, .nic = "mlx5_0"},
                            {.gpu = 1, .cpus = {4, 5}, .cores = 2, .nic = "mlx5_0"}});
  }
  for (int rank = 0; rank < 6; ++rank) {
    job.ranks.push_back(
        {.size = 6,
         .conflicts = {},
         .arguments = "17",
         .threads = 4,
         .openable = "12",
         .resources = {{0, 1, 2, 3, 4, 5, 6, 7}, {{"GPU-0", "0000:00:00.0"}, {"GPU-1", "0000:01:00.0"}}}});
  }
  return job;
}

}  // namespace mn::launcher

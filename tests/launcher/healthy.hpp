/// A job of three nodes with two ranks each on which every check is content; tests spoil one thing at a time.
#pragma once

#include "launcher/checks/checks.hpp"

namespace mn::launcher {

inline Facts healthy_gpu(int index) {
  return {{"uuid", "GPU-" + std::to_string(index)},
          {"bus", "0000:0" + std::to_string(index) + ":00.0"},
          {"name", "H100"},
          {"memory_mib", 81559},
          {"capability", 90},
          {"ecc", true},
          {"power_limit_w", 700},
          {"compute_mode", 0},
          {"mig", false},
          {"remap_pending", false},
          {"throttled", false},
          {"processes", 0}};
}

/// Two NUMA nodes of four cores, with a GPU each.
inline Machine healthy_machine() {
  Machine machine;
  for (int core = 0; core < 8; ++core) machine.cores.push_back({{core}, core / 4});
  machine.gpus = {{"nvml0", "0000:00:00.0", 0, {0, 1, 2, 3}, ""}, {"nvml1", "0000:01:00.0", 1, {4, 5, 6, 7}, ""}};
  machine.numa_nodes = 2;
  return machine;
}

inline Facts healthy_node(int node) {
  const std::string host = "vn" + std::to_string(node + 1);
  const std::string address = "10.0.0." + std::to_string(node + 1);
  return {{"host", host},
          {"time", 1000.0 + 0.01 * node},
          {"slurm_pmix", true},
          {"network",
           {{"addresses", {address}},
            {"address", address},
            {"subnet", "10.0.0.0/24"},
            {"subnets", {"10.0.0.0/24"}},
            {"resolved", {address}},
            {"failures", Facts::array()}}},
          {"machine", healthy_machine()},
          {"environment", {{"PATH", "/opt/mpi/bin"}, {"OMP_NUM_THREADS", "4"}}},
          {"files", {{{"path", "data.h5"}, {"exists", true}, {"size", 10}, {"changed", 5}, {"hash", "aa"}}}},
          {"program",
           {{"error", ""},
            {"program", {{"path", "/home/u/job"}, {"size", 9}, {"id", "1111"}}},
            {"mnlaunch", {{"path", "/home/u/mnlaunch"}, {"size", 9}, {"id", "2222"}}},
            {"script", ""},
            {"mpiexec", "/opt/mpi/bin/orterun"},
            {"mpi", "Open MPI"},
            {"missing", Facts::array()},
            {"libraries",
             {{"libmpi.so.40", {{"path", "/opt/mpi/lib/libmpi.so.40"}, {"id", "3333"}}},
              {"libc.so.6", {{"path", "/lib/libc.so.6"}, {"id", "4444"}}},
              {"libcudart.so.13", {{"path", "/opt/cuda/libcudart.so.13"}, {"id", "5555"}}}}}}},
          {"system",
           {{"limits", {{"memlock", -1}, {"nofile", 65536}, {"stack", -1}, {"nproc", 4096}, {"core", 0}}},
            {"fabric", {"mlx5_0"}},
            {"shm", {{"free_mib", 4096}, {"total_mib", 8192}, {"writable", true}}},
            {"ptrace_scope", "1"},
            {"driver_module", "580.95.05"},
            {"xids", Facts::array()},
            {"boot_id", "boot-" + host},
            {"cpu",
             {{"model", "EPYC"},
              {"count", 64},
              {"governor", "performance"},
              {"huge_pages", "[madvise]"},
              {"kernel", "6.1.0"},
              {"libc", "2.36"}}},
            {"user", {{"uid", 1000}, {"gid", 100}, {"umask", 18}}},
            {"folder", {{"path", "/home/u"}}},
            {"output", {{"path", "/home/u/result"}, {"writable", true}, {"free_mib", 900}, {"shared", true}}},
            {"tmp", {{"path", "/tmp"}, {"writable", true}, {"free_mib", 900}}}}},
          {"gpu_code", {{"the program", {{"binary", {80, 90}}, {"ptx", {90}}}}}},
          {"gpu", {{"version", "580.95.05"}, {"cuda", 13000}, {"gpus", {healthy_gpu(0), healthy_gpu(1)}}}},
          {"nccl", {{"/etc/nccl.conf", "not there"}, {"~/.nccl.conf", "not there"}, {"net_plugin", "none"}}}};
}

inline JobFacts healthy_job() {
  JobFacts job;
  job.launcher = Launcher::kPmix;
  job.layout = {{0, 0, 1, 1, 2, 2}, {"vn1", "vn2", "vn3"}};
  for (int node = 0; node < 3; ++node) {
    job.nodes.push_back(healthy_node(node));
    job.bindings.push_back({{.gpu = 0, .cpus = {0, 1}, .cores = 2, .nic = "mlx5_0", .shares_gpu = false},
                            {.gpu = 1, .cpus = {4, 5}, .cores = 2, .nic = "mlx5_0", .shares_gpu = false}});
  }
  for (int rank = 0; rank < 6; ++rank) {
    job.ranks.push_back(
        {{"size", 6},
         {"conflicts", Facts::array()},
         {"arguments", "17"},
         {"mask", "0-7"},
         {"threads", 4},
         {"openable", "12"},
         {"gpus", Facts::array({Facts::array({"GPU-0", "0000:00:00.0"}), Facts::array({"GPU-1", "0000:01:00.0"})})}});
  }
  return job;
}

}  // namespace mn::launcher

/// Differences in kernels, hardware and GPUs between a node and the two remaining nodes of healthy_job().
#pragma once

#include "planted.hpp"

namespace mn::launcher {

inline const Planted kPlantedHardware[] = {
    {"link down", "error [fabric]", "mlx5_0/1 is DOWN, but ACTIVE on other nodes",
     [](auto& n) { n.system.ports[0].state = "DOWN"; }},
    {"card absent", "error [fabric]", "mlx5_0/1 is absent, but ACTIVE on other nodes",
     [](auto& n) { n.system.ports.erase(n.system.ports.begin()); }},
    {"ethernet down", "warning [fabric]", "eth0 is down", [](auto& n) { n.system.ports[1].state = "down"; }},
    {"slow link", "warning [fabric]", "is 200 Gb/sec (4X HDR), but 400",
     [](auto& n) { n.system.ports[0].rate = "200 Gb/sec (4X HDR)"; }},
    {"link that comes and goes", "warning [fabric]", "lost its link 51 times since the node came up (days: 10)",
     [](auto& n) { n.system.ports[0].downs = 51; }},
    {"full counter", "warning [fabric]", "a counter of lost links or errors of the network port mlx5_0/1 is full",
     [](auto& n) { n.system.ports[0].is_full = true; }},
    {"errors on a link", "warning [fabric]", "counted 48001 errors",
     [](auto& n) { n.system.ports[0].errors = 200 * 24 * 10 + 1; }},
    {"cpu time", "warning [affinity]", "the time of 2.5 CPUs, but ranks are to run 8 threads",
     [](auto& n) { n.system.cpu.quota = 2.5; }},
    {"memlock", "error [memlock]", "locked memory", [](auto& n) { n.system.limits.memlock = 65536; }},
    {"shm small", "warning [shm]", "100 MiB", [](auto& n) { n.system.shm.free_mib = 100; }},
    {"shm full", "error [shm]", "10 MiB", [](auto& n) { n.system.shm.free_mib = 10; }},
    {"limits", "warning [limits]", "nofile", [](auto& n) { n.system.limits.nofile = 1024; }},
    {"cma", "warning [cma]", "ptrace_scope", [](auto& n) { n.system.ptrace_scope = "2"; }},
    {"cpu model", "warning [cpu]", "Xeon", [](auto& n) { n.system.cpu.model = "Xeon"; }},
    {"kernel", "warning [cpu]", "5.0", [](auto& n) { n.system.cpu.kernel = "5.0"; }},
    {"numa", "warning [cpu]", "NUMA", [](auto& n) { n.machine.numa_nodes = 4; }},
    {"uid", "error [user]", "user id", [](auto& n) { n.system.user.uid = 1001; }},
    {"umask", "warning [user]", "the umask is 077, but 022 on other nodes", [](auto& n) { n.system.user.umask = 077; }},
    {"tmp", "warning [tmp]", "temporary", [](auto& n) { n.system.tmp.writable = false; }},
    {"output not shared", "warning [output]", "/home/u/result", [](auto& n) { n.system.output.shared = false; }},
    {"group id", "error [user]", "the group id is 200", [](auto& n) { n.system.user.gid = 200; }},
    {"disk of temporary files full", "warning [tmp]", "is full", [](auto& n) { n.system.tmp.free_mib = 0; }},
    {"limit of processes", "warning [limits]", "the limit nproc", [](auto& n) { n.system.limits.nproc = 100; }},
    {"limit of the stack", "warning [limits]", "the limit stack", [](auto& n) { n.system.limits.stack = 8388608; }},
    {"frequency governor", "warning [cpu]", "governor is powersave",
     [](auto& n) { n.system.cpu.governor = "powersave"; }},
    {"huge pages", "warning [cpu]", "huge pages is [never]", [](auto& n) { n.system.cpu.huge_pages = "[never]"; }},
    {"C library's version", "warning [cpu]", "the C library is 2.31", [](auto& n) { n.system.cpu.libc = "2.31"; }},
    {"number of CPUs", "warning [cpu]", "the number of CPUs is 32", [](auto& n) { n.system.cpu.count = 32; }},
    {"number of GPUs", "warning [devices]", "the number of GPUs is 3, but 2 on other nodes",
     [](auto& n) { n.driver->gpus.push_back(healthy_gpu(2)); }},
    {"driver", "error [driver]", "the NVIDIA driver is 570.1",
     [](auto& n) { n.driver->version = n.system.driver_module = "570.1"; }},
    {"driver updated under the kernel", "error [driver]", "of different versions",
     [](auto& n) { n.system.driver_module = "570.1"; }},
    {"driver too old", "error [cuda]", "the driver serves CUDA 12", [](auto& n) { n.driver->cuda_version = 12040; }},
    {"no code for the GPU", "error [cuda]", "has no code for the H100",
     [](auto& n) {
       for (auto& gpu : n.driver->gpus) gpu.capability = 75;
     }},
    {"GPU model", "warning [gpu-model]", "A100",
     [](auto& n) {
       for (auto& gpu : n.driver->gpus) gpu.name = "A100";
     }},
    {"GPU memory", "warning [gpu-model]", "H100 93 GiB",
     [](auto& n) {
       for (auto& gpu : n.driver->gpus) gpu.memory_mib = 95830;
     }},
    {"ECC", "warning [gpu-model]", "ECC of the GPUs' memory is false",
     [](auto& n) {
       for (auto& gpu : n.driver->gpus) gpu.ecc = false;
     }},
    {"power limit", "warning [gpu-model]", "is 350, but 700 on other nodes",
     [](auto& n) {
       for (auto& gpu : n.driver->gpus) gpu.power_limit_w = 350;
     }},
    {"application clock", "warning [gpu-model]", "is 345, but 1980 on other nodes",
     [](auto& n) { n.driver->gpus[1].health.application_clock_mhz = 345; }},
    {"MIG", "error [gpu-mode]", "MIG mode is true", [](auto& n) { n.driver->gpus[1].mig = true; }},
    {"persistence mode", "warning [gpu-mode]", "persistence mode",
     [](auto& n) { n.driver->gpus[0].health.persistent = false; }},
    {"NVLink down", "warning [gpu-health]", "17 NVLinks up", [](auto& n) { n.driver->gpus[0].health.links = 17; }},
    {"NVLink recovered", "warning [gpu-health]", "2 recoveries of NVLinks",
     [](auto& n) { n.driver->gpus[0].health.link_recoveries = 2; }},
    {"outside the NVSwitch fabric", "warning [gpu-health]", "not in its NVSwitch fabric",
     [](auto& n) { n.driver->gpus[0].health.in_fabric = false; }},
    {"uncorrected memory errors", "warning [gpu-health]", "5 uncorrected memory errors",
     [](auto& n) { n.driver->gpus[1].health.uncorrected = 5; }},
    {"broken page", "warning [gpu-health]", "replace broken memory",
     [](auto& n) { n.driver->gpus[1].health.retirement_pending = true; }},
    {"broken row", "warning [gpu-health]", "replace broken memory",
     [](auto& n) { n.driver->gpus[1].remap_pending = true; }},
    {"no spare rows", "warning [gpu-health]", "no spare memory rows",
     [](auto& n) { n.driver->gpus[1].health.remap_failed = true; }},
    {"heat", "warning [gpu-health]", "slowed down by heat", [](auto& n) { n.driver->gpus[1].throttled = true; }},
    {"other people's processes", "warning [gpu-health]", "other processes compute",
     [](auto& n) { n.driver->gpus[1].processes = 1; }},
    {"XID", "warning [gpu-health]", "XID 79", [](auto& n) { n.system.xids = {"GPU 0000:3b:00 XID 79"}; }},
};

}  // namespace mn::launcher

/// Differences in software, settings and networks between a node and the two remaining nodes of healthy_job().
#pragma once

#include "planted.hpp"

namespace mn::launcher {

inline const Planted kPlantedSoftware[] = {
    {"folder", "warning [folder]", "/root", [](auto& n) { n.system.folder.path = "/root"; }},
    {"program absent", "error [program]", "was not found",
     [](auto& n) { n.program.error = "program \"job\" was not found"; }},
    {"program build", "error [program]", "is 9999, but 1111 on other nodes",
     [](auto& n) { n.program.program.id = "9999"; }},
    {"mnlaunch build", "error [program]", "mnlaunch", [](auto& n) { n.program.mnlaunch.id = "9999"; }},
    {"program cut off", "error [program]", "the size of the program is 4096, but 5000 on other nodes",
     [](auto& n) { n.program.program.size = 4096; }},
    {"mnlaunch stripped", "error [program]", "the size of mnlaunch", [](auto& n) { n.program.mnlaunch.size = 4096; }},
    {"settings of the site", "warning [program]", "mnlaunch.conf is ab, but absent on other nodes",
     [](auto& n) { n.program.settings = "ab"; }},
    {"script", "error [program]", "script", [](auto& n) { n.program.script = "77"; }},
    {"program path", "warning [program]", "/opt/job", [](auto& n) { n.program.program.path = "/opt/job"; }},
    {"Python", "error [python]", "the version of Python is 3.12, but 3.11 on other nodes",
     [](auto& n) {
       n.program.python = {{"python", "3.12"}, {"torch", "2.15.0"}};
     }},
    {"torch", "error [python]", "the version of torch is 2.15.0, but 2.11.0 on other nodes",
     [](auto& n) { n.program.python.at("torch") = "2.15.0"; }},
    {"NCCL of the wheel", "error [python]", "the version of nvidia_nccl_cu13 is absent, but 2.28.9",
     [](auto& n) { n.program.python.erase("nvidia_nccl_cu13"); }},
    {"numpy", "warning [python]", "numpy is 1.26.4", [](auto& n) { n.program.python.at("numpy") = "1.26.4"; }},
    {"unresolved", "error [unresolved]", "libfoo.so.1", [](auto& n) { n.program.missing = {"libfoo.so.1"}; }},
    {"mpi library", "error [libraries]", "libmpi.so.40",
     [](auto& n) { n.program.libraries->at("libmpi.so.40").id = "9"; }},
    {"c library", "warning [libraries]", "libc.so.6", [](auto& n) { n.program.libraries->at("libc.so.6").id = "9"; }},
    {"library cut off", "error [libraries]", "the size of libmpi.so.40 is 4096",
     [](auto& n) { n.program.libraries->at("libmpi.so.40").size = 4096; }},
    {"slow loader", "warning [libraries]", "gave no list of the program's libraries",
     [](auto& n) { n.program.libraries.reset(); }},
    {"mpiexec", "warning [mpiexec]", "/usr/bin/orterun", [](auto& n) { n.program.mpiexec = "/usr/bin/orterun"; }},
    {"nccl.conf", "error [nccl]", "/etc/nccl.conf", [](auto& n) { n.nccl->system_file = "ab"; }},
    {"net plugin", "error [nccl]", "plugin", [](auto& n) { n.nccl->net_plugin = "libnccl-net.so"; }},
    {"file absent", "error [files]", "data.h5", [](auto& n) { n.files[0].exists = false; }},
    {"file is a folder", "error [files]", "is not a regular file", [](auto& n) { n.files[0].size.reset(); }},
    {"file size", "error [files]", "is 11, but 10 on other nodes", [](auto& n) { n.files[0].size = 11; }},
    {"file middle", "warning [files]", "time of change", [](auto& n) { n.files[0].changed = 6; }},
    {"file content", "error [files]", "hash", [](auto& n) { n.files[0].hash = "bb"; }},
    {"path", "warning [environment]", "PATH",
     [](auto& n) { n.environment->at("PATH") = "/opt/other/bin:/opt/mpi/bin"; }},
    {"nccl variable", "error [environment]", "NCCL_ALGO", [](auto& n) { (*n.environment)["NCCL_ALGO"] = "Ring"; }},
    {"loopback name", "error [address]", "resolves to 127.0.0.1", [](auto& n) { n.network->resolved = {"127.0.0.1"}; }},
    {"unknown name", "error [address]", "does not resolve", [](auto& n) { n.network->resolved = {}; }},
    {"no card", "error [network]", "no network card", [](auto& n) { n.network->addresses = {}; }},
    {"user's nccl.conf", "error [nccl]", "~/.nccl.conf", [](auto& n) { n.nccl->user_file = "ab"; }},
    {"CUDA's runtime", "error [libraries]", "libcudart.so.13",
     [](auto& n) { n.program.libraries->at("libcudart.so.13").id = "9"; }},
    {"library absent", "error [libraries]", "libmpi.so.40 is absent",
     [](auto& n) { n.program.libraries->erase("libmpi.so.40"); }},
};

}  // namespace mn::launcher

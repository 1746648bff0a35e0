#include "facts/facts_json.hpp"

#include <mn/core/json.hpp>

#include "facts/json_fields.hpp"
#include "facts/variable_value.hpp"

namespace mn::launcher {
using json_fields::kNeeded;
using json_fields::Of;

void list_fields(Of<LimitFacts> auto& facts, auto visitor) {
  visitor("memlock", facts.memlock);
  visitor("nofile", facts.nofile);
  visitor("stack", facts.stack);
  visitor("nproc", facts.nproc);
  visitor("core", facts.core);
}

void list_fields(Of<CpuFacts> auto& facts, auto visitor) {
  visitor("model", facts.model);
  visitor("count", facts.count);
  visitor("governor", facts.governor);
  visitor("huge_pages", facts.huge_pages);
  visitor("kernel", facts.kernel);
  visitor("libc", facts.libc);
  visitor("quota", facts.quota);
}

void list_fields(Of<UserFacts> auto& facts, auto visitor) {
  visitor("uid", facts.uid);
  visitor("gid", facts.gid);
  visitor("umask", facts.umask);
}

void list_fields(Of<FolderFacts> auto& facts, auto visitor) {
  visitor("path", facts.path);
  visitor("free_mib", facts.free_mib);
  visitor("writable", facts.writable);
  visitor("shared", facts.shared);
}

void list_fields(Of<PortFacts> auto& facts, auto visitor) {
  visitor("name", facts.name);
  visitor("state", facts.state);
  visitor("rate", facts.rate);
  visitor("downs", facts.downs);
  visitor("errors", facts.errors);
  visitor("is_full", facts.is_full);
}

void list_fields(Of<SystemFacts> auto& facts, auto visitor) {
  visitor("limits", facts.limits);
  visitor("ports", facts.ports);
  visitor("uptime_s", facts.uptime_s);
  visitor("shm", facts.shm);
  visitor("ptrace_scope", facts.ptrace_scope);
  visitor("driver_module", facts.driver_module);
  visitor("xids", facts.xids);
  visitor("kernel_log", facts.kernel_log);
  visitor("boot_id", facts.boot_id);
  visitor("cpu", facts.cpu);
  visitor("user", facts.user);
  visitor("folder", facts.folder);
  visitor("output", facts.output);
  visitor("tmp", facts.tmp);
}

void list_fields(Of<BuildFacts> auto& facts, auto visitor) {
  visitor("path", facts.path);
  visitor("id", facts.id);
  visitor("size", facts.size);
}

void list_fields(Of<ProgramFacts> auto& facts, auto visitor) {
  visitor("error", facts.error);
  visitor("program", facts.program);
  visitor("mnlaunch", facts.mnlaunch);
  visitor("script", facts.script);
  visitor("script_mpi", facts.script_mpi);
  visitor("mpiexec", facts.mpiexec);
  visitor("settings", facts.settings);
  visitor("libraries", facts.libraries);
  visitor("missing", facts.missing);
  visitor("mpi", facts.mpi);
}

void list_fields(Of<FileFacts> auto& facts, auto visitor) {
  visitor("path", facts.path);
  visitor("exists", facts.exists);
  visitor("size", facts.size);
  visitor("changed", facts.changed);
  visitor("hash", facts.hash);
}

void list_fields(Of<NcclFacts> auto& facts, auto visitor) {
  visitor("/etc/nccl.conf", facts.system_file);
  visitor("~/.nccl.conf", facts.user_file);
  visitor("net_plugin", facts.net_plugin);
}

void list_fields(Of<GpuHealth> auto& health, auto visitor) {
  visitor("links", health.links);
  visitor("link_recoveries", health.link_recoveries);
  visitor("in_fabric", health.in_fabric);
  visitor("uncorrected", health.uncorrected);
  visitor("retirement_pending", health.retirement_pending);
  visitor("remap_failed", health.remap_failed);
  visitor("persistent", health.persistent);
  visitor("application_clock_mhz", health.application_clock_mhz);
}

/// The instances of the GPU are left out: no other node needs their names.
void list_fields(Of<Gpu> auto& gpu, auto visitor) {
  visitor("uuid", gpu.uuid);
  visitor("bus", gpu.bus_id);
  visitor("name", gpu.name);
  visitor("memory_mib", gpu.memory_mib);
  visitor("capability", gpu.capability);
  visitor("ecc", gpu.ecc);
  visitor("power_limit_w", gpu.power_limit_w);
  visitor("compute_mode", gpu.compute_mode);
  visitor("mig", gpu.mig);
  visitor("remap_pending", gpu.remap_pending);
  visitor("throttled", gpu.throttled);
  visitor("processes", gpu.processes);
  visitor("health", gpu.health);
}

void list_fields(Of<GpuDriver> auto& driver, auto visitor) {
  visitor("version", driver.version);
  visitor("cuda", driver.cuda_version);
  visitor("gpus", driver.gpus);
}

void list_fields(Of<NetworkFacts> auto& facts, auto visitor) {
  visitor("address", facts.address);
  visitor("subnet", facts.subnet);
  visitor("resolved", facts.resolved);
  visitor("addresses", facts.addresses);
  visitor("subnets", facts.subnets);
  visitor("failures", facts.failures);
}

void list_fields(Of<NodeFacts> auto& facts, auto visitor) {
  visitor("host", facts.host);
  visitor("machine", facts.machine, kNeeded);  // every rank of the node computes bindings from it
  visitor("time", facts.time);
  visitor("slurm_pmix", facts.slurm_pmix);
  visitor("has_pmi", facts.has_pmi);
  visitor("has_pmix", facts.has_pmix);
  visitor("network", facts.network);
  visitor("system", facts.system);
  visitor("program", facts.program);
  visitor("environment", facts.environment);
  visitor("files", facts.files);
  visitor("gpu", facts.driver);
  visitor("nccl", facts.nccl);
  visitor("gpu_code", facts.gpu_code);
}

void list_fields(Of<RankFacts> auto& facts, auto visitor) {
  visitor("size", facts.size);
  visitor("conflicts", facts.conflicts);
  visitor("arguments", facts.arguments);
  visitor("threads", facts.threads);
  visitor("openable", facts.openable);
  // Bindings are computed from these two fields.
  visitor("mask", facts.resources.mask, kNeeded);
  visitor("gpus", facts.resources.gpus, kNeeded);
}

void to_json(nlohmann::json& json, const VisibleGpu& gpu) {
  json = {gpu.uuid, gpu.bus_id};
  if (gpu.is_amd) json.push_back(true);  // marks AMD; NVIDIA's entries stay short
}

void from_json(const nlohmann::json& json, VisibleGpu& gpu) {
  json.at(0).get_to(gpu.uuid);
  json.at(1).get_to(gpu.bus_id);
  gpu.is_amd = json.size() > 2;
}

void to_json(nlohmann::json& json, const NodeFacts& facts) { json = json_fields::write_fields(facts); }
void to_json(nlohmann::json& json, const RankFacts& facts) { json = json_fields::write_fields(facts); }

void from_json(const nlohmann::json& json, NodeFacts& facts) { json_fields::read_fields(json, "", facts); }
void from_json(const nlohmann::json& json, RankFacts& facts) { json_fields::read_fields(json, "", facts); }

void limit_size(NodeFacts& facts) {
  constexpr std::size_t kMaxBytes = 16 << 10;
  if (!facts.environment || nlohmann::json::to_cbor(nlohmann::json(facts)).size() <= kMaxBytes) return;
  // Equal values have equal hashes, so nodes can still be compared.
  for (auto& [name, value] : *facts.environment) value = hash_of_value(value);
}

}  // namespace mn::launcher

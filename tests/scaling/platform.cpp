// A GPU cluster for SimGrid, shaped by environment variables: SIM_NODES × SIM_GPUS hosts "n<node>-g<gpu>".
//   within a node:  GPU → switch → GPU, each GPU with a full-duplex bus of its own (NVLink, PCIe)
//   between nodes:  GPU → its share of the node's SIM_NICS network ports → switches → port → GPU
// Where a port serves several GPUs, what leaves a GPU crosses its bus as well. Switches never block (full bisection,
// adaptive routing), so they are latency alone: one leaf between up to SIM_LEAF nodes, else leaf, spine and leaf. Flows
// that share no port then have no link in common, which keeps the simulator's systems of rates small.
// SIM_SCALE divides every bandwidth: with payloads divided likewise the simulated times are those of full size.
#include <cstdlib>
#include <string>
#include <utility>
#include <vector>

#include <simgrid/s4u.hpp>

namespace {

namespace s4u = simgrid::s4u;
using Direction = s4u::LinkInRoute::Direction;

double number(const char* name, double fallback) {
  const char* text = std::getenv(name);
  return text != nullptr ? std::atof(text) : fallback;
}
unsigned whole(const char* name, unsigned fallback) { return static_cast<unsigned>(number(name, fallback)); }

/// Bandwidths in bytes/s, latencies in seconds.
struct Hardware {
  unsigned nodes = whole("SIM_NODES", 1);
  unsigned gpus = whole("SIM_GPUS", 8);
  unsigned ports = whole("SIM_NICS", 8);
  unsigned nodes_per_leaf = whole("SIM_LEAF", 16);
  double scale = number("SIM_SCALE", 1);
  double bus = number("SIM_BUS_BW", 450e9) / scale;
  double bus_latency = number("SIM_BUS_LATENCY", 1e-6);
  double port = number("SIM_NIC_BW", 50e9) / scale;
  double port_latency = number("SIM_NIC_LATENCY", 0.5e-6);
  double switch_latency = number("SIM_SWITCH_LATENCY", 0.25e-6);
  /// From a port to the middle of the network.
  [[nodiscard]] double way_latency() const { return port_latency + (nodes > nodes_per_leaf ? 2 : 1) * switch_latency; }
};

s4u::SplitDuplexLink* duplex(s4u::NetZone* zone, const std::string& name, double bandwidth, double latency) {
  auto* link = zone->create_split_duplex_link(name, bandwidth);
  link->set_latency(latency);
  link->seal();
  return static_cast<s4u::SplitDuplexLink*>(link);
}

/// What a rank sends to another on the same host: a copy within the GPU's memory.
void add_loopback(s4u::NetZone* zone, const s4u::Host* host, double scale) {
  auto* copy = zone->create_link(host->get_name() + "-memory", 3e12 / scale);
  copy->set_sharing_policy(s4u::Link::SharingPolicy::FATPIPE)->set_latency(1e-8)->seal();
  zone->add_route(host->get_netpoint(), host->get_netpoint(), nullptr, nullptr, {s4u::LinkInRoute(copy)}, false);
}

std::pair<simgrid::kernel::routing::NetPoint*, simgrid::kernel::routing::NetPoint*> make_node(const Hardware& hardware,
                                                                                              s4u::NetZone* cluster,
                                                                                              unsigned long id) {
  const std::string name = "n" + std::to_string(id);
  auto* node = s4u::create_full_zone(name);
  node->set_parent(cluster);
  auto* router = node->create_router(name + "-router");
  std::vector<s4u::SplitDuplexLink*> ports;
  for (unsigned k = 0; k < hardware.ports; ++k) {
    ports.push_back(duplex(node, name + "-port" + std::to_string(k), hardware.port, hardware.way_latency()));
  }
  std::vector<s4u::Host*> gpus;
  std::vector<s4u::SplitDuplexLink*> buses;
  for (unsigned g = 0; g < hardware.gpus; ++g) {
    auto* gpu = node->create_host(name + "-g" + std::to_string(g), 1e9);
    gpu->set_core_count(2);  // computation and communication go on side by side
    gpu->seal();
    gpus.push_back(gpu);
    buses.push_back(duplex(node, gpu->get_name() + "-bus", hardware.bus, hardware.bus_latency));
    add_loopback(node, gpu, hardware.scale);
  }
  for (unsigned g = 0; g < hardware.gpus; ++g) {
    for (unsigned other = g + 1; other < hardware.gpus; ++other) {
      node->add_route(gpus[g]->get_netpoint(), gpus[other]->get_netpoint(), nullptr, nullptr,
                      {s4u::LinkInRoute(buses[g], Direction::UP), s4u::LinkInRoute(buses[other], Direction::DOWN)},
                      true);
    }
    std::vector<s4u::LinkInRoute> way_out;
    if (hardware.ports < hardware.gpus) way_out.emplace_back(buses[g], Direction::UP);
    way_out.emplace_back(ports[g * hardware.ports / hardware.gpus], Direction::UP);
    node->add_route(gpus[g]->get_netpoint(), router, nullptr, nullptr, way_out, true);
  }
  node->seal();
  return {node->get_netpoint(), router};
}

}  // namespace

extern "C" void load_platform(const s4u::Engine& engine);
void load_platform(const s4u::Engine& /*engine*/) {
  const Hardware hardware;
  auto* cluster = s4u::create_star_zone("cluster");
  for (unsigned id = 0; id < hardware.nodes; ++id) {
    const auto [node, router] = make_node(hardware, cluster, id);
    cluster->add_route(node, nullptr, router, nullptr, std::vector<s4u::LinkInRoute>{}, true);
  }
  cluster->seal();
}

// libudev's functions that Debian's libhwloc.a calls for the properties of disks. mnlaunch needs no disks, so libudev,
// which has no static library, is left out: without it, hwloc reads /run/udev itself.
extern "C" {

struct udev;
struct udev_device;

udev* udev_new() { return nullptr; }
udev* udev_unref(udev* /*context*/) { return nullptr; }
udev_device* udev_device_new_from_subsystem_sysname(udev* /*context*/, const char* /*subsystem*/,
                                                    const char* /*name*/) {
  return nullptr;
}
const char* udev_device_get_property_value(udev_device* /*device*/, const char* /*key*/) { return nullptr; }
udev_device* udev_device_unref(udev_device* /*device*/) { return nullptr; }
}

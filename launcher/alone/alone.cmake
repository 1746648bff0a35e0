# mnlaunch for machines that have none of its libraries: all are linked statically but glibc's and libgcc_s.
if(SKBUILD)  # the folders of the pip package
  set(CMAKE_INSTALL_BINDIR ${SKBUILD_SCRIPTS_DIR})
  set(CMAKE_INSTALL_DATADIR ${SKBUILD_DATA_DIR}/share)
  set(CMAKE_INSTALL_MANDIR ${CMAKE_INSTALL_DATADIR}/man)
endif()
add_library(mn_no_udev STATIC alone/no_udev.cpp)
target_link_libraries(mn_hwloc INTERFACE mn_no_udev)
mn_add_executable(mnlaunch SOURCES main.cpp cli/built_alone.cpp alone/old_glibc.cpp LINKS mn_launcher)
target_link_options(mnlaunch PRIVATE -static-libstdc++ -Wl,--as-needed,-s)
target_compile_definitions(mnlaunch PRIVATE MN_VERSION="${PROJECT_VERSION}")
mn_add_manual(mnlaunch SOURCE cli/man_page.cpp LINKS mn_launcher)

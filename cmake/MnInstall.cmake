# `cmake --install` of the libraries, their headers and the CMake package mn. Programs install in mn_add_executable.
include(CMakePackageConfigHelpers)
set(MN_PACKAGE_DIR ${CMAKE_INSTALL_LIBDIR}/cmake/mn)

# mn::mn: everything that a training program needs, behind <mn/mn.hpp>.
get_property(MN_LIBRARIES GLOBAL PROPERTY MN_INSTALLED_LIBRARIES)
add_library(mn INTERFACE)
add_library(mn::mn ALIAS mn)
target_link_libraries(mn INTERFACE ${MN_LIBRARIES})
if(MN_HAVE_TORCH)
  target_sources(mn INTERFACE FILE_SET HEADERS BASE_DIRS ${PROJECT_SOURCE_DIR}/runtime
                 FILES ${PROJECT_SOURCE_DIR}/runtime/mn/mn.hpp)
endif()

get_property(MN_BUILT_FILES GLOBAL PROPERTY MN_BUILT_FILES)
file(GENERATE OUTPUT ${PROJECT_BINARY_DIR}/installed-files CONTENT "$<JOIN:${MN_BUILT_FILES},\n>\n")
install(TARGETS mn ${MN_LIBRARIES} EXPORT mnTargets
        ARCHIVE DESTINATION ${CMAKE_INSTALL_LIBDIR} COMPONENT mn-dev
        FILE_SET HEADERS DESTINATION ${CMAKE_INSTALL_INCLUDEDIR} COMPONENT mn-dev)
install(EXPORT mnTargets NAMESPACE mn:: DESTINATION ${MN_PACKAGE_DIR} COMPONENT mn-dev)
set(MN_PACKAGE_FILES MnCoreDependencies.cmake MnDependencies.cmake MnNccl.cmake MnTorch.cmake)
list(TRANSFORM MN_PACKAGE_FILES PREPEND ${PROJECT_SOURCE_DIR}/cmake/)
# A libtorch inside the checkout is installed too, so the checkout can be deleted; an outside libtorch stays.
set(MN_TORCH_HINT ${MN_TORCH_DIR})
if(MN_HAVE_TORCH)
  file(REAL_PATH ${MN_TORCH_DIR}/.. MN_TORCH_SITE)
  cmake_path(IS_PREFIX PROJECT_SOURCE_DIR ${MN_TORCH_SITE} in_source)
  cmake_path(IS_PREFIX PROJECT_BINARY_DIR ${MN_TORCH_SITE} in_build)
  if(in_source OR in_build)
    set(MN_TORCH_DESTINATION ${CMAKE_INSTALL_LIBDIR}/mn/site-packages)
    set(MN_TORCH_HINT "\${PACKAGE_PREFIX_DIR}/${MN_TORCH_DESTINATION}/torch")
    install(CODE "set(MN_SITE ${MN_TORCH_SITE})\nset(MN_DESTINATION ${MN_TORCH_DESTINATION})")
    install(SCRIPT ${PROJECT_SOURCE_DIR}/cmake/install_torch.cmake)
  endif()
endif()
configure_package_config_file(${PROJECT_SOURCE_DIR}/cmake/mnConfig.cmake.in ${PROJECT_BINARY_DIR}/mnConfig.cmake
                              INSTALL_DESTINATION ${MN_PACKAGE_DIR} NO_SET_AND_CHECK_MACRO)
write_basic_package_version_file(${PROJECT_BINARY_DIR}/mnConfigVersion.cmake COMPATIBILITY SameMinorVersion)
install(FILES ${PROJECT_BINARY_DIR}/mnConfig.cmake ${PROJECT_BINARY_DIR}/mnConfigVersion.cmake
              ${MN_PACKAGE_FILES}
        DESTINATION ${MN_PACKAGE_DIR} COMPONENT mn-dev)
# The build folder also serves as a package (-Dmn_DIR=build), for `jobs/run FOLDER`, which builds the target first.
export(EXPORT mnTargets NAMESPACE mn:: FILE ${PROJECT_BINARY_DIR}/mnTargets.cmake)
file(COPY ${MN_PACKAGE_FILES} DESTINATION ${PROJECT_BINARY_DIR})
add_custom_target(libraries)
add_dependencies(libraries ${MN_LIBRARIES})

install(DIRECTORY ${PROJECT_SOURCE_DIR}/slurm/ DESTINATION ${CMAKE_INSTALL_DATADIR}/mn/slurm FILES_MATCHING PATTERN *.sbatch)
if(MN_HAVE_TORCH)
  install(DIRECTORY ${PROJECT_SOURCE_DIR}/jobs/imagenet/recipes DESTINATION ${CMAKE_INSTALL_DATADIR}/mn/jobs/imagenet)
  install(PROGRAMS ${PROJECT_SOURCE_DIR}/python/mn-compile DESTINATION ${CMAKE_INSTALL_BINDIR} COMPONENT mn-dev)
  install(DIRECTORY ${PROJECT_SOURCE_DIR}/python/mn_compile DESTINATION ${CMAKE_INSTALL_DATADIR}/mn/python
          COMPONENT mn-dev FILES_MATCHING PATTERN *.py)
  file(CREATE_LINK ${PROJECT_SOURCE_DIR}/python/mn-compile ${PROJECT_BINARY_DIR}/mn-compile SYMBOLIC)
  install(PROGRAMS ${PROJECT_SOURCE_DIR}/cmake/new-job DESTINATION ${CMAKE_INSTALL_BINDIR} RENAME mn-new-job
          COMPONENT mn-dev)
  install(DIRECTORY ${PROJECT_SOURCE_DIR}/cmake/new_job DESTINATION ${CMAKE_INSTALL_DATADIR}/mn COMPONENT mn-dev)
endif()
# `module use PREFIX/share/modulefiles; module load mn`
install(CODE "file(CONFIGURE OUTPUT \"\$ENV{DESTDIR}\${CMAKE_INSTALL_PREFIX}/${CMAKE_INSTALL_DATADIR}/modulefiles/mn/${PROJECT_VERSION}\"
  CONTENT \"#%Module\nprepend-path PATH \${CMAKE_INSTALL_PREFIX}/${CMAKE_INSTALL_BINDIR}
prepend-path MANPATH \${CMAKE_INSTALL_PREFIX}/${CMAKE_INSTALL_MANDIR}
prepend-path CMAKE_PREFIX_PATH \${CMAKE_INSTALL_PREFIX}\n\")")
if(MN_HAVE_TORCH)
  file(GLOB examples ${PROJECT_SOURCE_DIR}/tests/examples/*.cpp)
  install(FILES ${examples} ${PROJECT_SOURCE_DIR}/cmake/examples/CMakeLists.txt
          DESTINATION ${CMAKE_INSTALL_DATADIR}/mn/examples COMPONENT mn-dev)
endif()
install(FILES ${PROJECT_SOURCE_DIR}/LICENSE ${PROJECT_SOURCE_DIR}/CITATION.cff DESTINATION ${CMAKE_INSTALL_DOCDIR})
install(DIRECTORY ${PROJECT_SOURCE_DIR}/docs/images DESTINATION ${CMAKE_INSTALL_DOCDIR}/docs
        FILES_MATCHING PATTERN *.svg PATTERN *.png)
install(CODE "set(prefix \"\$ENV{DESTDIR}\${CMAKE_INSTALL_PREFIX}\")
message(STATUS \"Installing: \${prefix}/${CMAKE_INSTALL_DOCDIR}\")
execute_process(COMMAND_ERROR_IS_FATAL ANY COMMAND
  \"${PROJECT_SOURCE_DIR}/cmake/install_docs\" \"${PROJECT_SOURCE_DIR}\" \"\${prefix}/${CMAKE_INSTALL_DOCDIR}\"
  \"runtime=\${prefix}/${CMAKE_INSTALL_INCLUDEDIR}\" \"slurm=\${prefix}/${CMAKE_INSTALL_DATADIR}/mn/slurm\"
  \"jobs/imagenet/recipes=\${prefix}/${CMAKE_INSTALL_DATADIR}/mn/jobs/imagenet/recipes\"
  \"tests/examples=\${prefix}/${CMAKE_INSTALL_DATADIR}/mn/examples\")")

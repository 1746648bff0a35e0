# `cmake --build build --target docs` makes the site in build/docs/site: README.md, CHANGELOG.md and docs/, by MkDocs, and,
# where Doxygen is installed, the target `reference`: the API of the public headers. A warning is an error.
find_package(Doxygen QUIET)
add_custom_target(docs COMMAND ${PROJECT_SOURCE_DIR}/cmake/site/build ${PROJECT_BINARY_DIR}
                  COMMENT "Writing the documentation to ${PROJECT_BINARY_DIR}/docs/site" VERBATIM)
if(NOT DOXYGEN_FOUND)
  return()
endif()

get_property(headers GLOBAL PROPERTY MN_PUBLIC_HEADERS)
set(DOXYGEN_OUTPUT_DIRECTORY ${PROJECT_BINARY_DIR}/docs)
set(DOXYGEN_STRIP_FROM_PATH ${PROJECT_SOURCE_DIR}/runtime)
set(DOXYGEN_STRIP_FROM_INC_PATH ${PROJECT_SOURCE_DIR}/runtime)
set(DOXYGEN_JAVADOC_AUTOBRIEF YES)
set(DOXYGEN_EXTRACT_ALL NO)
set(DOXYGEN_SORT_MEMBER_DOCS NO)
set(DOXYGEN_DISTRIBUTE_GROUP_DOC YES)  # one comment for overloads that differ in a type only
set(DOXYGEN_SHOW_USED_FILES NO)
set(DOXYGEN_GENERATE_LATEX NO)
set(DOXYGEN_HAVE_DOT NO)
set(DOXYGEN_QUIET YES)
set(DOXYGEN_WARN_AS_ERROR FAIL_ON_WARNINGS)
set(DOXYGEN_PROJECT_BRIEF "multi-node training for libtorch, on Slurm clusters")
set(DOXYGEN_GENERATE_TREEVIEW YES)
doxygen_add_docs(reference ${headers} ${PROJECT_SOURCE_DIR}/runtime/mn/mn.hpp
                 COMMENT "Writing the API reference to ${PROJECT_BINARY_DIR}/docs/html")
add_dependencies(docs reference)

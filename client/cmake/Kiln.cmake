# Winners of a Kiln farm as targets that a build links.
#
#   kiln_add_kernel(<target> SWEEP <file>
#                   [SERVER <address>]   a farm: unix:/path or host:port. Without it, the kernel is
#                                        tuned on this machine by `tunectl tune`.
#                   [ONLY <text>]        which sweep, when the file makes several
#                   [SET <NAME=VALUE>...]  other values of compile-time arguments
#                   [FORMAT obj|so]      a static library (the default) or a shared one
#                   [STORE <dir>]        store of `tunectl tune`; default: the user's cache
#                   [DEPENDS <file>...]  more files that the kernel depends on
#                   [OUTPUT <dir>]       default: <binary dir>/kiln/<target>
#                   [INSTALL])           install the library and its header
#
# Makes the library target <target>: its header is <target>.h, its function kiln_<kernel>(). Building
# it tunes the sweep, or takes the winner from the store when it is known; the sweep file and its
# kernel are dependencies, so that an edited kernel is tuned again.
#
#   include(Kiln)   or   find_package(Kiln)
#   kiln_add_kernel(gemm SWEEP gemm.yaml)
#   target_link_libraries(app PRIVATE gemm)
#
# Variables: KILN_TUNECTL (path of tunectl), KILN_SERVER (default of SERVER).
include_guard(GLOBAL)
include(GNUInstallDirs)

find_program(KILN_TUNECTL tunectl
  HINTS "${CMAKE_CURRENT_LIST_DIR}/../../../bin"      # installed: lib/cmake/Kiln,
        "${CMAKE_CURRENT_LIST_DIR}/../../../../bin"   # or lib/<architecture>/cmake/Kiln
        "${CMAKE_CURRENT_LIST_DIR}/../../build/bin"  # in Kiln's own tree
  DOC "tunectl, Kiln's command line")

# Kernel files that a sweep file names, as absolute paths.
function(_kiln_kernels_of sweep out)
  get_filename_component(folder "${sweep}" DIRECTORY)
  file(STRINGS "${sweep}" lines REGEX "kernel[ ]*:")
  set(found)
  foreach(line IN LISTS lines)
    if(line MATCHES "kernel[ ]*:[ ]*[\"']?([^\"',} #]+)")
      get_filename_component(path "${CMAKE_MATCH_1}" ABSOLUTE BASE_DIR "${folder}")
      if(EXISTS "${path}")
        list(APPEND found "${path}")
      endif()
    endif()
  endforeach()
  set(${out} ${found} PARENT_SCOPE)
endfunction()

# The library target over the fetched object. A shared one is linked here, so that it has the
# target's name for its SONAME, and CMake sees to run paths and installation.
function(_kiln_library target format directory artifact)
  find_package(Threads REQUIRED)
  set(kind STATIC)
  if(format STREQUAL "so")
    set(kind SHARED)
  endif()
  add_library(${target} ${kind} "${artifact}")
  set_source_files_properties("${artifact}" PROPERTIES EXTERNAL_OBJECT TRUE GENERATED TRUE)
  set_target_properties(${target} PROPERTIES LINKER_LANGUAGE C)
  target_include_directories(${target} INTERFACE "$<BUILD_INTERFACE:${directory}>"
    "$<INSTALL_INTERFACE:${CMAKE_INSTALL_INCLUDEDIR}>")
  target_link_libraries(${target} PUBLIC Threads::Threads m)
  add_dependencies(${target} ${target}_tune)
endfunction()

function(kiln_add_kernel target)
  cmake_parse_arguments(ARG "INSTALL" "SWEEP;SERVER;ONLY;FORMAT;STORE;OUTPUT" "SET;DEPENDS" ${ARGN})
  if(ARG_UNPARSED_ARGUMENTS OR NOT ARG_SWEEP)
    message(FATAL_ERROR "kiln_add_kernel(${target}): SWEEP is missing, or there is something more "
                        "than the known arguments: ${ARG_UNPARSED_ARGUMENTS}")
  endif()
  if(NOT KILN_TUNECTL)
    message(FATAL_ERROR "kiln_add_kernel(${target}): tunectl was not found; set KILN_TUNECTL")
  endif()
  if(NOT ARG_FORMAT)
    set(ARG_FORMAT obj)
  endif()
  if(NOT ARG_FORMAT MATCHES "^(obj|so)$")
    message(FATAL_ERROR "kiln_add_kernel(${target}): FORMAT is obj or so, not ${ARG_FORMAT}")
  endif()
  if(NOT ARG_SERVER AND KILN_SERVER)
    set(ARG_SERVER "${KILN_SERVER}")
  endif()
  if(NOT ARG_OUTPUT)
    set(ARG_OUTPUT "${CMAKE_CURRENT_BINARY_DIR}/kiln/${target}")
  endif()
  get_filename_component(sweep "${ARG_SWEEP}" ABSOLUTE)
  if(NOT EXISTS "${sweep}")
    message(FATAL_ERROR "kiln_add_kernel(${target}): there is no sweep file ${sweep}")
  endif()
  set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS "${sweep}")
  _kiln_kernels_of("${sweep}" kernels)

  if(ARG_SERVER)
    set(command "${KILN_TUNECTL}" --server "${ARG_SERVER}" submit "${sweep}" --watch)
  else()
    set(command "${KILN_TUNECTL}" tune "${sweep}")
    if(ARG_STORE)
      list(APPEND command --store "${ARG_STORE}")
    endif()
  endif()
  if(ARG_ONLY)
    list(APPEND command --only "${ARG_ONLY}")
  endif()
  foreach(setting IN LISTS ARG_SET)
    list(APPEND command --set "${setting}")
  endforeach()

  set(artifact "${ARG_OUTPUT}/${target}.o")
  set(header "${ARG_OUTPUT}/${target}.h")
  set(manifest "${ARG_OUTPUT}/${target}.json")
  add_custom_command(
    OUTPUT "${artifact}" "${header}" "${manifest}"
    COMMAND ${command} --one --format obj --name "${target}" -o "${ARG_OUTPUT}"
    DEPENDS "${sweep}" ${kernels} ${ARG_DEPENDS}
    COMMENT "Tuning ${target} (${ARG_SWEEP})"
    USES_TERMINAL  # one after the other, with live progress
    VERBATIM)
  add_custom_target(${target}_tune DEPENDS "${artifact}" "${header}" "${manifest}")
  _kiln_library(${target} ${ARG_FORMAT} "${ARG_OUTPUT}" "${artifact}")

  if(ARG_INSTALL)
    install(FILES "${header}" DESTINATION "${CMAKE_INSTALL_INCLUDEDIR}")
    install(TARGETS ${target} ARCHIVE DESTINATION "${CMAKE_INSTALL_LIBDIR}"
      LIBRARY DESTINATION "${CMAKE_INSTALL_LIBDIR}")
  endif()
endfunction()

# Three functions that every folder uses, so that a target is one line of sources and one of needs.

# The parsing of flags is no hot path, and a third of the time of compiling it at -O2 is optimisation;
# of a test's file it is two thirds. Property tests compute much themselves.
set(KILN_CLI_OPTIONS -O1)
set(KILN_PROPERTY_OPTIONS -O1)
set(KILN_TEST_OPTIONS -O0 CACHE STRING "Options of the files of all other tests")

# What a sanitizer's configuration links into every program.
if(KILN_SANITIZER_SOURCE)
  add_library(kiln_sanitizer OBJECT ${KILN_SANITIZER_SOURCE})
  set(KILN_SANITIZER_OBJECTS $<TARGET_OBJECTS:kiln_sanitizer>)
endif()

# Precompiled headers of a target, see KilnPch.cmake: what its folder says, but whoever parses flags
# gets `cli`, because no header costs more.
function(kiln_use_pch target prefix deps)
  if("CLI11::CLI11" IN_LIST deps)
    set(KILN_PCH cli)
    target_compile_options(${target} PRIVATE ${KILN_CLI_OPTIONS})
  elseif(NOT KILN_PCH)
    set(KILN_PCH base)
  endif()
  target_precompile_headers(${target} REUSE_FROM kiln_pch_${prefix}${KILN_PCH})
endfunction()

# kiln_library(NAME SRCS ... DEPS ...)
function(kiln_library name)
  cmake_parse_arguments(ARG "" "" "SRCS;DEPS" ${ARGN})
  add_library(${name} STATIC ${ARG_SRCS})
  target_include_directories(${name} PUBLIC ${CMAKE_SOURCE_DIR})
  target_link_libraries(${name} PUBLIC ${ARG_DEPS})
  kiln_use_pch(${name} "" "${ARG_DEPS}")
endfunction()

# kiln_binary(NAME SRCS ... DEPS ...): lands in build/bin.
function(kiln_binary name)
  cmake_parse_arguments(ARG "" "" "SRCS;DEPS" ${ARGN})
  add_executable(${name} ${ARG_SRCS} ${KILN_SANITIZER_OBJECTS})
  target_include_directories(${name} PRIVATE ${CMAKE_SOURCE_DIR})
  target_link_libraries(${name} PRIVATE ${ARG_DEPS})
  set_target_properties(${name} PROPERTIES RUNTIME_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/bin
    INSTALL_RPATH "$ORIGIN/../lib")
  target_link_options(${name} PRIVATE -Wl,--disable-new-dtags)  # libraries of libraries follow it too
  kiln_use_pch(${name} "" "${ARG_DEPS}")
endfunction()

# kiln_test(NAME LABEL unit SRCS ... DEPS ... [ARGS ...] [TIMEOUT s] [SERIAL] [CRASHES])
# A GoogleTest program; LABEL is the folder of tests/ it lives in. KILN_GROUP (compiler or farm) is a
# second label, and `tests_<group>` builds all tests of it. CRASHES: crashes of its processes are what
# it is about, so a sanitizer leaves the signals to the handlers under test.
function(kiln_test name)
  cmake_parse_arguments(ARG "SERIAL;CRASHES" "LABEL;TIMEOUT" "SRCS;DEPS;ARGS" ${ARGN})
  add_executable(${name} ${ARG_SRCS} ${KILN_SANITIZER_OBJECTS})
  if(ARG_LABEL STREQUAL property)
    set(KILN_PCH property)
    target_compile_options(${name} PRIVATE ${KILN_PROPERTY_OPTIONS})
  else()
    target_compile_options(${name} PRIVATE ${KILN_TEST_OPTIONS})
  endif()
  target_include_directories(${name} PRIVATE ${CMAKE_SOURCE_DIR})
  target_link_libraries(${name} PRIVATE ${ARG_DEPS} GTest::gmock GTest::gtest GTest::gtest_main)
  set_target_properties(${name} PROPERTIES RUNTIME_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/tests)
  kiln_use_pch(${name} test_ "")
  add_test(NAME ${name} COMMAND ${name} ${ARG_ARGS} WORKING_DIRECTORY ${CMAKE_SOURCE_DIR})
  if(NOT ARG_TIMEOUT)
    set(ARG_TIMEOUT 120)
  endif()
  set_tests_properties(${name} PROPERTIES LABELS "${ARG_LABEL};${KILN_GROUP}" TIMEOUT ${ARG_TIMEOUT})
  add_dependencies(tests_${KILN_GROUP} ${name})
  if(ARG_SERIAL)
    set_tests_properties(${name} PROPERTIES RUN_SERIAL ON)
  endif()
  if(KILN_SANITIZER_OPTIONS)
    set(options "${KILN_SANITIZER_OPTIONS}")
    if(ARG_CRASHES)
      string(APPEND options ":handle_segv=0:handle_sigbus=0:handle_sigill=0:handle_sigfpe=0:handle_abort=0")
    endif()
    set_tests_properties(${name} PROPERTIES ENVIRONMENT "${options}")
  endif()
endfunction()

# kiln_script_test(NAME SCRIPT file.py LABELS ... TIMEOUT s [ARGS ...] [PROPERTIES ...])
# A test in Python of this folder, which runs programs of ours.
function(kiln_script_test name)
  cmake_parse_arguments(ARG "" "SCRIPT;TIMEOUT" "ARGS;LABELS;PROPERTIES" ${ARGN})
  find_package(Python3 REQUIRED COMPONENTS Interpreter)
  add_test(NAME ${name}
    COMMAND ${Python3_EXECUTABLE} ${CMAKE_CURRENT_SOURCE_DIR}/${ARG_SCRIPT} ${ARG_ARGS}
    WORKING_DIRECTORY ${CMAKE_SOURCE_DIR})
  set_tests_properties(${name} PROPERTIES LABELS "${ARG_LABELS}" TIMEOUT ${ARG_TIMEOUT}
    ${ARG_PROPERTIES} ENVIRONMENT "${KILN_SANITIZER_OPTIONS}")
endfunction()

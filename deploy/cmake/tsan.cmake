# ThreadSanitizer, with Clang: cmake -C deploy/cmake/tsan.cmake -S . -B build/tsan
# The libraries are not built with it. So it looks at the memory that our code touches, not at what
# they copy and free, and is told of the locks that they take (tests/util/tsan_locks.cc).
set(flags "-O1 -g1 -DKILN_SANITIZER -fsanitize=thread -fsanitize-ignorelist=${CMAKE_CURRENT_LIST_DIR}/tsan.ignorelist")
set(CMAKE_BUILD_TYPE Sanitize CACHE STRING "")  # no flags but those below
set(CMAKE_CXX_FLAGS "${flags}" CACHE STRING "")
set(CMAKE_C_FLAGS "${flags}" CACHE STRING "")
set(KILN_SANITIZER_SOURCE ${CMAKE_CURRENT_LIST_DIR}/../../tests/util/tsan_locks.cc CACHE FILEPATH "")  # in every program
set(KILN_SANITIZER_OPTIONS "TSAN_OPTIONS=ignore_interceptors_accesses=1:die_after_fork=0:suppressions=${CMAKE_CURRENT_LIST_DIR}/tsan.suppressions" CACHE STRING "")  # of the tests, see kiln_test
set(KILN_TEST_OPTIONS -O1 CACHE STRING "")

# ThreadSanitizer: cmake -C deploy/cmake/tsan.cmake -S . -B build/tsan
set(CMAKE_BUILD_TYPE Sanitize CACHE STRING "")  # no flags but those below
set(CMAKE_CXX_FLAGS "-O1 -g1 -DKILN_SANITIZER -fsanitize=thread" CACHE STRING "")
set(CMAKE_C_FLAGS "-O1 -g1 -DKILN_SANITIZER -fsanitize=thread" CACHE STRING "")
set(KILN_SANITIZER_OPTIONS "TSAN_OPTIONS=suppressions=${CMAKE_CURRENT_LIST_DIR}/tsan.suppressions" CACHE STRING "")  # of the tests, see kiln_test

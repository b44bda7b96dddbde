# ThreadSanitizer: cmake -C deploy/cmake/tsan.cmake -S . -B build/tsan
set(CMAKE_BUILD_TYPE Release CACHE STRING "")
set(CMAKE_CXX_FLAGS "-O1 -g1 -fsanitize=thread" CACHE STRING "")
set(CMAKE_C_FLAGS "-O1 -g1 -fsanitize=thread" CACHE STRING "")
set(KILN_SANITIZER tsan CACHE STRING "")

# As on a host without the CUDA toolkit: cmake -C deploy/cmake/no_cuda.cmake -S . -B build/no_cuda
set(CMAKE_BUILD_TYPE Release CACHE STRING "")
set(CMAKE_DISABLE_FIND_PACKAGE_CUDAToolkit ON CACHE BOOL "")
set(CMAKE_DISABLE_PRECOMPILE_HEADERS ON CACHE BOOL "")

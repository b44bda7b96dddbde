# AddressSanitizer with UndefinedBehaviorSanitizer: cmake -C deploy/cmake/asan.cmake -S . -B build/asan
set(CMAKE_BUILD_TYPE Release CACHE STRING "")
set(CMAKE_CXX_FLAGS "-O1 -g1 -fsanitize=address,undefined -fno-sanitize-recover=undefined -fno-omit-frame-pointer" CACHE STRING "")
set(CMAKE_C_FLAGS "-O1 -g1 -fsanitize=address,undefined -fno-omit-frame-pointer" CACHE STRING "")
set(KILN_SANITIZER asan CACHE STRING "")

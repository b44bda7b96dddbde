# AddressSanitizer with UndefinedBehaviorSanitizer: cmake -C deploy/cmake/asan.cmake -S . -B build/asan
set(CMAKE_BUILD_TYPE Sanitize CACHE STRING "")  # no flags but those below
# Not "function": what libraries loaded at run time define is called by types that we declare.
set(CMAKE_CXX_FLAGS "-O1 -g1 -DKILN_SANITIZER -fsanitize=address,undefined -fno-sanitize=function -fno-sanitize-recover=undefined -fno-omit-frame-pointer" CACHE STRING "")
set(CMAKE_C_FLAGS "-O1 -g1 -DKILN_SANITIZER -fsanitize=address,undefined -fno-sanitize=function -fno-omit-frame-pointer" CACHE STRING "")
# Of the tests, see kiln_test. LLVM gives threads signal stacks of its own, which the sanitizer would free.
set(KILN_SANITIZER_OPTIONS "LSAN_OPTIONS=suppressions=${CMAKE_CURRENT_LIST_DIR}/lsan.suppressions:print_suppressions=0;ASAN_OPTIONS=detect_leaks=1:use_sigaltstack=0" CACHE STRING "")
set(KILN_TEST_OPTIONS -O1 CACHE STRING "")

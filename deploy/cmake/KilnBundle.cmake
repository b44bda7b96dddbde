# What deploy/package.sh packs: the programs, and every shared library that they need but glibc.
set(programs kiln-coordinator kiln-worker kiln-runner tunectl)
if(LLVM_FOUND)
  list(APPEND programs kiln-compile kilnc)  # neighbours: what they share is packed once
endif()
install(TARGETS ${programs} RUNTIME_DEPENDENCY_SET kiln_bundle
  RUNTIME DESTINATION bin COMPONENT bundle EXCLUDE_FROM_ALL)
install(RUNTIME_DEPENDENCY_SET kiln_bundle
  PRE_EXCLUDE_REGEXES "^ld-linux" "^lib(c|m|dl|rt|pthread|resolv|util|nsl|anl)\\.so"
  LIBRARY DESTINATION lib COMPONENT bundle EXCLUDE_FROM_ALL)
install(DIRECTORY client/examples DESTINATION . COMPONENT bundle EXCLUDE_FROM_ALL)
# What tunes and checks a GPU machine of itself: job/gpu/main_job.sh.
install(DIRECTORY tests/gpu DESTINATION job COMPONENT bundle EXCLUDE_FROM_ALL
  USE_SOURCE_PERMISSIONS PATTERN __pycache__ EXCLUDE)
install(FILES tests/bench/gpu/bench.py DESTINATION job/bench/gpu COMPONENT bundle EXCLUDE_FROM_ALL)
add_custom_target(bundle DEPENDS ${programs})

# find_package(Kiln): kiln_add_kernel() and the path of tunectl.
include("${CMAKE_CURRENT_LIST_DIR}/Kiln.cmake")
if(NOT KILN_TUNECTL)
  set(Kiln_FOUND FALSE)
  set(Kiln_NOT_FOUND_MESSAGE "tunectl was not found; set KILN_TUNECTL")
endif()

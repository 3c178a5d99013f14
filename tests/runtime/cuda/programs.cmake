# SPDX-License-Identifier: Apache-2.0
# What a program for GPUs does before it uses one needs no toolkit: it is tested on every machine, with a stub of the driver.
set(_cuda "${CMAKE_CURRENT_LIST_DIR}/../../../runtime-lib/device/cuda")
if(NOT DEVICE STREQUAL "cuda")
    set(_looks "${_cuda}/driver/gpu.cpp" "${_cuda}/driver/library.cpp" "${_cuda}/gemm/plan_file.cpp"
        "${_cuda}/gemm/product_key.cpp")
endif()
enable_language(C)
add_library(runtime_driver_stub SHARED "${CMAKE_CURRENT_LIST_DIR}/driver_stub.c")
set_target_properties(runtime_driver_stub PROPERTIES OUTPUT_NAME cuda VERSION 1 SOVERSION 1
                      LIBRARY_OUTPUT_DIRECTORY "${CMAKE_CURRENT_BINARY_DIR}/driver_stub")
add_executable(runtime_gpu_probe "${CMAKE_CURRENT_LIST_DIR}/gpu_probe.cpp" ${_looks})
target_link_libraries(runtime_gpu_probe PRIVATE thunder_runtime ${CMAKE_DL_LIBS})
target_compile_options(runtime_gpu_probe PRIVATE -Wall -Wextra -Werror)
target_sources(runtime_cuda_tests PRIVATE ${_looks})
target_link_libraries(runtime_cuda_tests PRIVATE ${CMAKE_DL_LIBS})
target_compile_definitions(runtime_cuda_tests PRIVATE PROBE="$<TARGET_FILE:runtime_gpu_probe>"
                           STUB_FOLDER="${CMAKE_CURRENT_BINARY_DIR}/driver_stub")
add_dependencies(runtime_cuda_tests runtime_gpu_probe runtime_driver_stub)

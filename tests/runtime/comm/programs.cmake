# SPDX-License-Identifier: Apache-2.0
# What runs as several ranks: each is a program of its own that mpirun starts, as it starts users' programs.
if(TARGET thunder_comm_mpi)
    find_program(MPIRUN mpirun REQUIRED)
    add_executable(collectives_ranks "${CMAKE_CURRENT_LIST_DIR}/collectives_ranks.cpp" "${CMAKE_CURRENT_LIST_DIR}/mpi_leaks.cpp")
    target_link_libraries(collectives_ranks PRIVATE thunder_comm_mpi thunder_runtime GTest::gtest)
    target_compile_options(collectives_ranks PRIVATE -Wall -Wextra -Werror)
    target_include_directories(collectives_ranks PRIVATE "${CMAKE_CURRENT_LIST_DIR}/../..")
    target_compile_definitions(collectives_ranks PRIVATE FIXTURES="${CMAKE_CURRENT_LIST_DIR}/../../fixtures")
    foreach(_ranks 1 2 3 4)
        add_test(NAME Ranks.CollectivesOf${_ranks}
                 COMMAND "${MPIRUN}" -np ${_ranks} --oversubscribe --allow-run-as-root $<TARGET_FILE:collectives_ranks>)
        set_tests_properties(Ranks.CollectivesOf${_ranks} PROPERTIES TIMEOUT 120 PROCESSORS 2)
    endforeach()

    # The model `words` on ranks, beside the same on one rank (tests/runtime/train).
    function(add_words name replicas shards)
        add_executable(${name} "${CMAKE_CURRENT_FUNCTION_LIST_DIR}/../../../templates/train.cpp"
                       "${CMAKE_CURRENT_FUNCTION_LIST_DIR}/words/model.cpp" "${CMAKE_CURRENT_FUNCTION_LIST_DIR}/mpi_leaks.cpp")
        target_include_directories(${name} PRIVATE "${CMAKE_CURRENT_FUNCTION_LIST_DIR}/words" "${CMAKE_CURRENT_FUNCTION_LIST_DIR}/../train/words")
        target_link_libraries(${name} PRIVATE thunder_runtime thunder_comm_mpi)
        target_compile_definitions(${name} PRIVATE THUNDERC_PROGRAM_DIR="." WORDS_REPLICAS=${replicas} WORDS_SHARDS=${shards}
                                   WORDS_SCHEDULE="${name}" ${ARGN})
        target_compile_options(${name} PRIVATE -Wall -Wextra -Werror)
        add_dependencies(runtime_comm_tests ${name})
    endfunction()
    add_words(words_dp2 2 1)
    add_words(words_fsdp2 1 2)
    add_words(words_fsdp4 1 4 WORDS_BATCH=1)
    add_words(words_hsdp2x2 2 2 WORDS_BATCH=1)
    add_words(words_other_schedule 2 1)
    add_words(words_one_stream 2 1 WORDS_STREAMS=1)
    file(GLOB _ranks CONFIGURE_DEPENDS "${CMAKE_CURRENT_LIST_DIR}/../../../runtime-lib/comm/ranks/*.cpp")
    target_sources(runtime_comm_tests PRIVATE ${_ranks})
    target_link_libraries(runtime_comm_tests PRIVATE Threads::Threads)
    target_compile_definitions(runtime_comm_tests PRIVATE PROGRAMS="${CMAKE_CURRENT_BINARY_DIR}" MPIRUN="${MPIRUN}"
                               SAMPLES="${CMAKE_CURRENT_LIST_DIR}/../../../samples")
    target_include_directories(runtime_comm_tests PRIVATE "${CMAKE_CURRENT_LIST_DIR}/../train")

    if(NOT CMAKE_CXX_FLAGS MATCHES "-fsanitize")  # as in tests/runtime/train
        add_dependencies(runtime_comm_tests failing_calls)
        target_compile_definitions(runtime_comm_tests PRIVATE FAILING_CALLS="$<TARGET_FILE:failing_calls>")
    endif()

    # NCCL's side on the host: its header and CUDA's are what this needs, and a stub is what it calls.
    find_path(NCCL_INCLUDE_DIR nccl.h HINTS /usr/local/cuda/include)
    find_path(CUDART_INCLUDE_DIR cuda_runtime_api.h HINTS /usr/local/cuda/include)
    if(NCCL_INCLUDE_DIR AND CUDART_INCLUDE_DIR)
        enable_language(C)
        set(_runtime "${CMAKE_CURRENT_LIST_DIR}/../../../runtime-lib")
        file(GLOB _nccl CONFIGURE_DEPENDS "${_runtime}/comm/nccl/*.cpp" "${_runtime}/comm/ranks/*.cpp")
        add_executable(nccl_ranks "${CMAKE_CURRENT_LIST_DIR}/nccl_ranks.cpp" ${_nccl} "${_runtime}/device/cuda/driver/library.cpp")
        target_include_directories(nccl_ranks SYSTEM PRIVATE "${CUDART_INCLUDE_DIR}" "${NCCL_INCLUDE_DIR}")
        target_link_libraries(nccl_ranks PRIVATE thunder_runtime Threads::Threads ${CMAKE_DL_LIBS})
        target_compile_options(nccl_ranks PRIVATE -Wall -Wextra -Werror)
        add_library(nccl_stub SHARED "${CMAKE_CURRENT_LIST_DIR}/nccl_stub.c")
        target_include_directories(nccl_stub SYSTEM PRIVATE "${CUDART_INCLUDE_DIR}" "${NCCL_INCLUDE_DIR}")
        target_compile_options(nccl_stub PRIVATE -Wall -Wextra -Werror)
        set_target_properties(nccl_stub PROPERTIES LIBRARY_OUTPUT_DIRECTORY "${CMAKE_CURRENT_BINARY_DIR}/nccl_stub" OUTPUT_NAME nccl
                              SUFFIX ".so.2")
        add_dependencies(runtime_comm_tests nccl_ranks nccl_stub)
        target_sources(runtime_comm_tests PRIVATE "${CMAKE_CURRENT_LIST_DIR}/nccl_tests.cpp")
        target_compile_definitions(runtime_comm_tests PRIVATE NCCL_STUB="${CMAKE_CURRENT_BINARY_DIR}/nccl_stub")
    else()
        message(STATUS "there is no header of NCCL: what is asked of it is not tested")
    endif()
else()
    message(STATUS "there is no MPI: programs of several ranks are not tested")
endif()

# What runs as several ranks: each is a program of its own that mpirun starts, as it starts users' programs.
if(TARGET thunder_comm_mpi)
    find_program(MPIRUN mpirun REQUIRED)
    add_executable(collectives_ranks "${CMAKE_CURRENT_LIST_DIR}/collectives_ranks.cpp")
    target_link_libraries(collectives_ranks PRIVATE thunder_comm_mpi thunder_runtime GTest::gtest)
    target_compile_options(collectives_ranks PRIVATE -Wall -Wextra -Werror)
    foreach(_ranks 1 2 3 4)
        add_test(NAME Ranks.CollectivesOf${_ranks}
                 COMMAND "${MPIRUN}" -np ${_ranks} --oversubscribe --allow-run-as-root $<TARGET_FILE:collectives_ranks>)
        set_tests_properties(Ranks.CollectivesOf${_ranks} PROPERTIES TIMEOUT 120 PROCESSORS 2)
    endforeach()

    # The model `words` on ranks, beside the same on one rank (tests/runtime/train).
    function(add_words name replicas shards)
        add_executable(${name} "${CMAKE_CURRENT_FUNCTION_LIST_DIR}/../../../templates/train.cpp"
                       "${CMAKE_CURRENT_FUNCTION_LIST_DIR}/words/model.cpp")
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
    target_compile_definitions(runtime_comm_tests PRIVATE PROGRAMS="${CMAKE_CURRENT_BINARY_DIR}" MPIRUN="${MPIRUN}")
    target_include_directories(runtime_comm_tests PRIVATE "${CMAKE_CURRENT_LIST_DIR}/../train")
else()
    message(STATUS "there is no MPI: programs of several ranks are not tested")
endif()

# What runs as several ranks: each is a program of its own that mpirun starts, as it starts users' programs.
if(TARGET thunder_comm_mpi)
    add_executable(collectives_ranks "${CMAKE_CURRENT_LIST_DIR}/collectives_ranks.cpp")
    target_link_libraries(collectives_ranks PRIVATE thunder_comm_mpi thunder_runtime GTest::gtest)
    target_compile_options(collectives_ranks PRIVATE -Wall -Wextra -Werror)
    find_program(MPIRUN mpirun REQUIRED)
    foreach(_ranks 1 2 3 4)
        add_test(NAME Ranks.CollectivesOf${_ranks}
                 COMMAND "${MPIRUN}" -np ${_ranks} --oversubscribe --allow-run-as-root $<TARGET_FILE:collectives_ranks>)
        set_tests_properties(Ranks.CollectivesOf${_ranks} PROPERTIES TIMEOUT 120 PROCESSORS 2)
    endforeach()
else()
    message(STATUS "there is no MPI: programs of several ranks are not tested")
endif()

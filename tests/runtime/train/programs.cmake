# SPDX-License-Identifier: Apache-2.0
# Whole programs that the tests run: the loop that every generated program has, over models written by hand. They look for
# their files in the folder in which they are started.
function(add_program name model)
    add_executable(${name} ${CMAKE_CURRENT_FUNCTION_LIST_DIR}/../../../templates/train.cpp ${CMAKE_CURRENT_FUNCTION_LIST_DIR}/${model}/model.cpp)
    target_include_directories(${name} PRIVATE ${CMAKE_CURRENT_FUNCTION_LIST_DIR}/${model})
    target_link_libraries(${name} PRIVATE thunder_runtime)
    target_compile_definitions(${name} PRIVATE THUNDERC_PROGRAM_DIR="." ${ARGN})
    target_compile_options(${name} PRIVATE -Wall -Wextra -Werror)
    add_dependencies(runtime_train_tests ${name})
endfunction()
add_program(words_train words)
add_program(words_half_train words WORDS_BATCH=2)
add_program(words_without_pair_train words WORDS_WITHOUT_PAIR)
add_program(line_train line)
add_program(line_terms_train line LINE_TERMS)
target_compile_definitions(runtime_train_tests PRIVATE PROGRAMS="${CMAKE_CURRENT_BINARY_DIR}"
                           SAMPLES="${CMAKE_CURRENT_LIST_DIR}/../../../samples"
                           FIXTURES="${CMAKE_CURRENT_LIST_DIR}/../../fixtures")

# What lets calls on files fail. Sanitizers come before anything else that is loaded.
if(NOT CMAKE_CXX_FLAGS MATCHES "-fsanitize")
    add_library(failing_calls SHARED ${CMAKE_CURRENT_LIST_DIR}/failing_calls.cpp)
    target_compile_options(failing_calls PRIVATE -Wall -Wextra -Werror)
    target_link_libraries(failing_calls PRIVATE ${CMAKE_DL_LIBS})
    add_dependencies(runtime_train_tests failing_calls)
    target_compile_definitions(runtime_train_tests PRIVATE FAILING_CALLS="$<TARGET_FILE:failing_calls>")
endif()

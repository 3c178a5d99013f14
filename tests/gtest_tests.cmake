# SPDX-License-Identifier: Apache-2.0
# thunderc_tests(TARGET [PREFIX ops.] [FILTER PATTERN] [SHARDS N] [TIMEOUT SECONDS] [COST SECONDS])
#
# The tests of a GoogleTest program as entries of ctest: one for each test, which `ctest -R` finds by its name, or the
# program in N parts. Parts save the start of a process for each test: of thousands of small ones it takes longer than
# they do. Under sanitizers, where a start takes ten times as long, every program runs in parts. COST is for tests that take
# longest: ctest begins with them where it has not seen them run yet.
include_guard()
include(GoogleTest)

function(thunderc_tests target)
  cmake_parse_arguments(arg "" "PREFIX;FILTER;SHARDS;TIMEOUT;COST" "" ${ARGN})
  if(NOT arg_TIMEOUT)
    set(arg_TIMEOUT 1500)
    if(THUNDERC_FULL)
      set(arg_TIMEOUT 14400)
    endif()
  endif()
  set(cost)
  if(arg_COST)
    set(cost COST ${arg_COST})
  endif()
  if(NOT arg_SHARDS AND CMAKE_CXX_FLAGS MATCHES "-fsanitize")
    set(arg_SHARDS 4)
  endif()
  if(NOT arg_SHARDS)
    set(filter)
    if(arg_FILTER)
      set(filter TEST_FILTER ${arg_FILTER})
    endif()
    gtest_discover_tests(${target} ${filter} TEST_PREFIX "${arg_PREFIX}" DISCOVERY_TIMEOUT 60 PROPERTIES TIMEOUT ${arg_TIMEOUT} ${cost}
                         FAIL_REGULAR_EXPRESSION "Running 0 tests")  # a name of a list that is out of date
    return()
  endif()
  set(filter)
  if(arg_FILTER)
    set(filter "--gtest_filter=${arg_FILTER}")
  endif()
  math(EXPR last "${arg_SHARDS} - 1")
  foreach(index RANGE ${last})
    math(EXPR part "${index} + 1")
    set(name "${arg_PREFIX}${target}.${part}_of_${arg_SHARDS}")
    add_test(NAME ${name} COMMAND ${target} --gtest_brief=1 ${filter})
    set_tests_properties(${name} PROPERTIES TIMEOUT ${arg_TIMEOUT} ${cost}
                         ENVIRONMENT "GTEST_TOTAL_SHARDS=${arg_SHARDS};GTEST_SHARD_INDEX=${index}")
  endforeach()
endfunction()

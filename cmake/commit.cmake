# SPDX-License-Identifier: Apache-2.0
# Writes OUT, a header with the commit of this folder: "" where it is no clone, or git is missing. Untouched where it is the same.
cmake_minimum_required(VERSION 3.25)
execute_process(COMMAND git describe --always --dirty --abbrev=12 --exclude=* OUTPUT_VARIABLE commit ERROR_QUIET RESULT_VARIABLE status
                OUTPUT_STRIP_TRAILING_WHITESPACE)
if(NOT status EQUAL 0)
  set(commit "")
endif()
file(CONFIGURE OUTPUT ${OUT} CONTENT "#pragma once\n\nnamespace thunderc {\n\ninline constexpr const char* commit = \"@commit@\";\n\n}  // namespace thunderc\n" @ONLY)

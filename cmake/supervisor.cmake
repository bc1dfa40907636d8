# The supervisor program, CHAMVI_SUPERVISOR: one small static file that runs on this machine and in
# any container or pod, whatever libc that has.

set(CHAMVI_SUPERVISOR ${PROJECT_BINARY_DIR}/chamvi-supervisor)

# The layer as a library of the ordinary compiler: what tests of its parts link, and what shows the
# supervisor's sources to both compilers' warnings and to the sanitizers.
if(CHAMVI_DEV OR CHAMVI_SANITIZE OR CHAMVI_COVERAGE)
    chamvi_layer_library(supervisor)
    list(PREPEND CHAMVI_LIBRARIES chamvi_supervisor)
else()
    chamvi_layer_folder(supervisor unused)
endif()

if(CHAMVI_SANITIZE)
    # A child that shares memory with its parent is beyond the sanitizers: fork.
    target_compile_definitions(chamvi_supervisor PRIVATE CV_SPAWN_FORK=1)
    # The leak check attaches to its process, which a supervisor refuses (it is not dumpable). Its
    # stderr is /dev/null, so a report goes to a file, supervisor-report.<pid>.
    file(CONFIGURE OUTPUT supervisor_asan.c @ONLY CONTENT [[
const char *__asan_default_options(void);
const char *__asan_default_options(void)
{
    return "detect_leaks=0:log_path='@PROJECT_BINARY_DIR@/supervisor-report'";
}
]])
    add_executable(supervisor $<TARGET_OBJECTS:chamvi_supervisor>
        ${CMAKE_CURRENT_BINARY_DIR}/supervisor_asan.c)
    chamvi_layer_needs(supervisor needs)
    target_link_libraries(supervisor PRIVATE ${needs})
    set_target_properties(supervisor PROPERTIES
        OUTPUT_NAME chamvi-supervisor
        RUNTIME_OUTPUT_DIRECTORY ${PROJECT_BINARY_DIR})
    return()
endif()

if(CHAMVI_COVERAGE)
    add_executable(supervisor $<TARGET_OBJECTS:chamvi_supervisor>)
    chamvi_layer_needs(supervisor needs)
    target_link_libraries(supervisor PRIVATE ${needs})
    set_target_properties(supervisor PROPERTIES
        OUTPUT_NAME chamvi-supervisor
        RUNTIME_OUTPUT_DIRECTORY ${PROJECT_BINARY_DIR})
    return()
endif()

# musl's static program is a fraction of glibc's.
find_program(CHAMVI_MUSL_CC musl-gcc)
if(CHAMVI_MUSL_CC)
    set(compiler ${CHAMVI_MUSL_CC})
else()
    find_program(CHAMVI_STATIC_CC NAMES gcc cc REQUIRED)
    set(compiler ${CHAMVI_STATIC_CC})
endif()
message(STATUS "Supervisor: static, built by ${compiler}")

set(sources)
set(headers)
foreach(folder IN LISTS CHAMVI_MAY_INCLUDE_supervisor)
    chamvi_layer_files(${folder} "*.c" files)
    list(APPEND sources ${files})
    chamvi_layer_files(${folder} "*.h" files)
    list(APPEND headers ${files})
endforeach()

set(options ${CHAMVI_COMPILE_OPTIONS})
if(NOT CHAMVI_DEV)
    list(APPEND options -DNDEBUG)
endif()
add_custom_command(
    OUTPUT ${CHAMVI_SUPERVISOR}
    COMMAND ${compiler} -std=c11 -D_GNU_SOURCE -O2 ${options}
        -ffunction-sections -fdata-sections -fno-asynchronous-unwind-tables
        -I ${PROJECT_BINARY_DIR}/layers/supervisor
        -static -s -Wl,--gc-sections -Wl,-z,noexecstack -Wl,-z,relro -Wl,--build-id=none
        -o ${CHAMVI_SUPERVISOR} ${sources}
    COMMAND chmod 0755 ${CHAMVI_SUPERVISOR}
    DEPENDS ${sources} ${headers}
    COMMENT "Building the static supervisor"
    COMMAND_EXPAND_LISTS VERBATIM)
add_custom_target(supervisor ALL DEPENDS ${CHAMVI_SUPERVISOR})
